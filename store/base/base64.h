// Base64 with padding (RFC 4648): the form of keys and values in etcd's JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/base/namespaces.h"

namespace dlaunch::store {

std::string to_base64(std::string_view bytes);
// None: the text is not base64. White space and bits after the last byte are not accepted.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace dlaunch::store
