#include "runtime/backend/module_file.h"

#include <dlfcn.h>

#include "dlaunch/error.h"
#include "runtime/backend/registry.h"

namespace dlaunch::internal {

void* find_in_module(const std::string& file, const char* symbol, const std::string& what_fails) {
  std::string problems;
  const auto note = [&problems](const std::string& problem) {
    problems += (problems.empty() ? "" : "; ") + problem;
  };
  for (const std::string& folder : backend_folders()) {
    std::string path = folder;
    path.append("/").append(file);
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char* const why = dlerror();
      note(why ? why : path + " cannot be loaded");
      continue;
    }
    if (void* const found = dlsym(library, symbol)) return found;
    note(path + " does not export " + symbol);
  }
  if (problems.empty()) note("it is in none of the backends' folders");
  throw DistStoreError(what_fails + ": the module " + file + " cannot be loaded: " + problems);
}

}  // namespace dlaunch::internal
