// Bytes as hexadecimal digits, in lower case. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "store/base/namespaces.h"

namespace dlaunch::store {

inline constexpr std::string_view hex_digits = "0123456789abcdef";

inline std::string to_hex(std::string_view bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += hex_digits[byte >> 4U];
    text += hex_digits[byte & 15U];
  }
  return text;
}

// Empty: not so many bytes, or not hexadecimal.
inline std::string from_hex(std::string_view text, std::size_t count) {
  std::string bytes;
  if (text.size() != 2 * count) return bytes;
  bytes.reserve(count);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const std::size_t high = hex_digits.find(text[i]);
    const std::size_t low = hex_digits.find(text[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return {};
    bytes += static_cast<char>(high << 4U | low);
  }
  return bytes;
}

}  // namespace dlaunch::store
