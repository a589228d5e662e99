#include "store/base/hmac.h"

#include <utility>

#include "store/base/sha256.h"

namespace dlaunch {

std::string hmac_sha256(std::string_view key, std::string_view message) {
  constexpr char inner_pad = 0x36;
  constexpr char outer_pad = 0x5c;
  std::string padded = key.size() > sha256_block ? sha256(key) : std::string(key);
  padded.resize(sha256_block, '\0');
  std::string inner = padded;
  std::string outer = std::move(padded);
  for (char& c : inner) c = static_cast<char>(c ^ inner_pad);
  for (char& c : outer) c = static_cast<char>(c ^ outer_pad);
  return sha256(outer + sha256(inner.append(message)));
}

bool are_equal_secrets(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned>(static_cast<unsigned char>(b[i]));
  return difference == 0;
}

}  // namespace dlaunch
