#include "store/base/hmac.h"

#include <sha2.h>

#include <array>
#include <cstdint>

namespace dlaunch {
namespace {

std::string sha256(std::string_view first, std::string_view second) {
  SHA2_CTX context;
  SHA256Init(&context);
  for (const std::string_view part : {first, second})
    SHA256Update(&context, reinterpret_cast<const std::uint8_t*>(part.data()), part.size());
  std::array<std::uint8_t, SHA256_DIGEST_LENGTH> digest{};
  SHA256Final(digest.data(), &context);
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace

std::string hmac_sha256(std::string_view key, std::string_view message) {
  constexpr char inner_pad = 0x36;
  constexpr char outer_pad = 0x5c;
  constexpr std::size_t block = SHA256_BLOCK_LENGTH;
  std::string padded = key.size() > block ? sha256(key, "") : std::string(key);
  padded.resize(block, '\0');
  std::string inner = padded;
  std::string outer = padded;
  for (char& c : inner) c = static_cast<char>(c ^ inner_pad);
  for (char& c : outer) c = static_cast<char>(c ^ outer_pad);
  return sha256(outer, sha256(inner, message));
}

bool are_equal_secrets(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned>(static_cast<unsigned char>(b[i]));
  return difference == 0;
}

}  // namespace dlaunch
