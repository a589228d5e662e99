#include "runtime/cuda/shared_library.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "runtime/base/process_environment.h"
#include "runtime/cuda/library_places.h"

namespace dlaunch::internal {

namespace {

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::vector<std::string> package_folders() {
  std::vector<std::string> folders;
  for (const std::string& prefix : python_prefixes(process_environment, is_file)) {
    std::error_code ignored;
    for (const auto& version : std::filesystem::directory_iterator(prefix + "/lib", ignored)) {
      if (!version.path().filename().string().starts_with("python3")) continue;
      for (const char* const packages : {"site-packages", "dist-packages"}) {
        const std::string nvidia = version.path().string() + "/" + packages + "/nvidia";
        if (is_file(nvidia)) folders.push_back(nvidia);
      }
    }
  }
  std::ranges::sort(folders);
  return folders;
}

}  // namespace

void* load_shared_library(const char* what, const std::vector<std::string>& names,
                          const std::vector<std::string>& wheels, std::string& problem) {
  const std::vector<std::string> folders = package_folders();
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
