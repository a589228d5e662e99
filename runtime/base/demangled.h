// Names of C++ as a person reads them.
#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace dlaunch::internal {

// The name itself if it is none that the compiler made.
inline std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 ? text.get() : name;
}

}  // namespace dlaunch::internal
