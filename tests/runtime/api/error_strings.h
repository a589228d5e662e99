// What came of a call, as text that a test can compare. Public headers only.
#pragma once

#include <unistd.h>

#include <string>

#include "dlaunch/error.h"

namespace dlaunch::test {

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// As errors name it.
inline std::string host_name() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return host;
}

template <class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const DistError& e) {
    return e.what();
  }
  return "no error";
}

template <class F>
bool error_contains(const F& f, const std::string& part) {
  return contains(error_of(f), part);
}

}  // namespace dlaunch::test
