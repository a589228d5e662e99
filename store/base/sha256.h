// SHA-256 (FIPS 180-4). Here because libdlaunch.so, too, proves secrets, and asks for no library where it
// runs.
#pragma once

#include <string>
#include <string_view>

namespace dlaunch {

inline constexpr std::size_t sha256_size = 32;
inline constexpr std::size_t sha256_block = 64;

// The digest, sha256_size bytes.
std::string sha256(std::string_view message);

}  // namespace dlaunch
