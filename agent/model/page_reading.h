// How the parsers of a worker's page take values out of its bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <string>

#include "store/base/bytes.h"
#include "store/base/sanitize.h"

namespace dlaunch::agent {

// REQUIRES: bytes.size() >= offset + sizeof(T).
template <class T>
T read_at(ByteSpan bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// Up to the first zero byte, without what a terminal would take for a command.
template <std::size_t N>
std::string text_of(const std::array<char, N>& text) {
  return sanitize_for_terminal({text.data(), strnlen(text.data(), N)});
}

}  // namespace dlaunch::agent
