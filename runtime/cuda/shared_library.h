// A shared library of NVIDIA and its entry points, wherever it is installed.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

namespace dlaunch::internal {

// The first of library_places() that can be loaded; else null, and `problem` is set, which begins with
// `what`.
void* load_shared_library(const char* what, const std::vector<std::string>& names,
                          const std::vector<std::string>& wheels, std::string& problem);

// The entry point; if there is none, `problem` is set unless it was.
template <class Function>
void find_function(void* library, const char* name, Function& function, std::string& problem) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr && problem.empty()) problem = std::string("it lacks the entry point ") + name;
}

}  // namespace dlaunch::internal
