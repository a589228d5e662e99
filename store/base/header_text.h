// The text of HTTP headers, in requests and answers: names and schemes match in any case, and blanks around
// values are ignored. ASCII only, whatever the locale.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "store/base/namespaces.h"

namespace dlaunch::store {

inline std::string lower_case(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

inline std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

}  // namespace dlaunch::store
