// HMAC-SHA-256 (RFC 2104), over libmd's hash, for proofs that a secret is known and for keys derived from it.
#pragma once

#include <string>
#include <string_view>

namespace dlaunch {

inline constexpr std::size_t mac_size = 32;

// mac_size bytes.
std::string hmac_sha256(std::string_view key, std::string_view message);

// The time it takes does not depend on what differs.
bool are_equal_secrets(std::string_view a, std::string_view b);

}  // namespace dlaunch
