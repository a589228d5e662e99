// Base64 as RFC 4648 has it, with padding: the form of keys and values in etcd's JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dlaunch::agent {

std::string to_base64(std::string_view bytes);
// None: it is not base64.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace dlaunch::agent
