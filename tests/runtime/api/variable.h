#pragma once

#include <cstdlib>

namespace dlaunch::test {

// A variable of this process, and of those that it starts, while the object lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

}  // namespace dlaunch::test
