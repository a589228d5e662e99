// Words in sentences: joined, quoted, counted, in lower case. Pure.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "store/base/namespaces.h"

namespace dlaunch::store {

// "a, b, c" with `between` = ", ". `words`: any range of strings.
template <class Words>
std::string join(const Words& words, std::string_view between) {
  std::string text;
  bool is_first = true;
  for (const std::string_view word : words) {
    if (!is_first) text.append(between);
    text.append(word);
    is_first = false;
  }
  return text;
}

// 'text', for messages. For command lines: launcher/flags/shell_words.h.
inline std::string quoted(std::string_view text) { return std::string(1, '\'').append(text).append(1, '\''); }

// Changes only A to Z, whatever the locale.
inline std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

// "1 node", "2 nodes".
template <std::integral Number>
std::string pluralize(Number n, std::string_view thing) {
  return std::to_string(n).append(1, ' ').append(thing).append(n == 1 ? "" : "s");
}

// Names in a sentence: "a, b and 3 more".
class ShortList {
 public:
  void add(const std::string& name) {
    if (++count_ <= shown) text_.append(text_.empty() ? "" : ", ").append(name);
  }
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] std::string text() const {
    return count_ > shown ? text_ + " and " + std::to_string(count_ - shown) + " more" : text_;
  }

 private:
  static constexpr int shown = 8;
  std::string text_;
  int count_ = 0;
};

}  // namespace dlaunch::store
