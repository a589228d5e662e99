#include "runtime/backend/module_file.h"

#include <dlfcn.h>

#include "dlaunch/error.h"
#include "runtime/backend/registry.h"

namespace dlaunch::internal {

void* find_in_module(const std::string& file, const char* symbol, const std::string& what_fails) {
  std::string problem = "it is in none of the backends' folders";
  for (const std::string& folder : backend_folders()) {
    std::string path = folder;
    path.append("/").append(file);
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char* const why = dlerror();
      if (why) problem = why;
      continue;
    }
    if (void* const found = dlsym(library, symbol)) return found;
    problem = path + " does not export " + symbol;
  }
  throw DistStoreError(what_fails + ": the module " + file + " cannot be loaded: " + problem);
}

}  // namespace dlaunch::internal
