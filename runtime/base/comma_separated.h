// Ranks, shapes and names in messages.
#pragma once

#include <string>
#include <vector>

namespace dlaunch::internal {

// "0, 2, 3", "dp, tp".
template <class T>
std::string comma_separated(const std::vector<T>& things) {
  std::string text;
  for (const T& thing : things) {
    text += text.empty() ? "" : ", ";
    if constexpr (requires { std::to_string(thing); }) {
      text += std::to_string(thing);
    } else {
      text += thing;
    }
  }
  return text;
}

// "ranks 1, 4, 7"; only the first ones of many.
std::string describe_ranks(const std::vector<int>& ranks);

}  // namespace dlaunch::internal
