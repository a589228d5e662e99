// HMAC-SHA-256 (RFC 2104, by Nettle): proofs that a peer knows a secret, and keys derived from the secret.
#pragma once

#include <string>
#include <string_view>

#include "store/base/namespaces.h"

namespace dlaunch::store {

inline constexpr std::size_t mac_size = 32;

// mac_size bytes.
std::string hmac_sha256(std::string_view key, std::string_view message);

// The time it takes depends only on the sizes, not on which bytes differ.
bool are_equal_secrets(std::string_view a, std::string_view b);

}  // namespace dlaunch::store
