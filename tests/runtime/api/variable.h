#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace dlaunch::test {

// A variable of this process, and of those that it starts, while the object lives; then it is as before.
class Variable {
 public:
  // `value`: null if the variable is not to be set.
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Variable() { set(before_ ? before_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

  void set(const char* value) const {
    if (value != nullptr) {
      setenv(name_, value, 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* const name_;
  std::optional<std::string> before_;
};

}  // namespace dlaunch::test
