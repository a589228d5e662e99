// HMAC-SHA-256 (RFC 2104, FIPS 180-4), over libmd's hash.
#pragma once

#include <string>
#include <string_view>

namespace dlaunch::agent {

// 32 bytes.
std::string hmac_sha256(std::string_view key, std::string_view message);

// In a time that does not tell where they differ.
bool are_equal_secrets(std::string_view a, std::string_view b);

}  // namespace dlaunch::agent
