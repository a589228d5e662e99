#include "runtime/cuda/shared_library.h"

#include "runtime/base/process_environment.h"
#include "store/base/library_places.h"
#include "store/base/wheel_folders.h"

namespace dlaunch::internal {

void* load_shared_library(const char* what, const std::vector<std::string>& names,
                          const std::vector<std::string>& wheels, std::string& problem) {
  const std::vector<std::string> folders = nvidia_wheel_folders(process_environment);
  for (const std::string& place : library_places(names, wheels, folders, process_environment)) {
    if (void* const library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  problem = std::string(what) + " (" + names.front() +
            ") was not found, neither by the loader (LD_LIBRARY_PATH, ld.so.conf), nor in CUDA_HOME, nor in "
            "the packages of Python";
  for (const std::string& folder : folders) problem += (folder == folders.front() ? ": " : ", ") + folder;
  return nullptr;
}

}  // namespace dlaunch::internal
