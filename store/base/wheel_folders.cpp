#include "store/base/wheel_folders.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace dlaunch::store {

namespace {

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace

std::vector<std::string> nvidia_wheel_folders(const VariableLookup& environment) {
  std::vector<std::string> folders;
  for (const std::string& prefix : python_prefixes(environment, is_file)) {
    std::error_code failed;
    for (std::filesystem::directory_iterator at(prefix + "/lib", failed), end; !failed && at != end;
         at.increment(failed)) {
      if (!at->path().filename().string().starts_with("python3")) continue;
      for (const char* const packages : {"site-packages", "dist-packages"}) {
        const std::string nvidia = at->path().string() + "/" + packages + "/nvidia";
        if (is_file(nvidia)) folders.push_back(nvidia);
      }
    }
  }
  std::ranges::sort(folders);
  return folders;
}

}  // namespace dlaunch::store
