// Names in a sentence: "a, b and 3 more".
#pragma once

#include <string>

namespace dlaunch::agent {

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

}  // namespace dlaunch::agent
