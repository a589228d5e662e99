// Reads whole numbers from text. Pure.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

#include "store/base/namespaces.h"

namespace dlaunch::store {

// Strict: `text` is nothing but the number. None: other characters, also blanks or a '+'; a '-' before an
// unsigned type; an empty text; or a number that `Number` cannot hold.
template <std::integral Number>
std::optional<Number> parse_number(std::string_view text, int base = 10) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, number, base);
  if (failure != std::errc{} || stop != end) return std::nullopt;
  return number;
}

}  // namespace dlaunch::store
