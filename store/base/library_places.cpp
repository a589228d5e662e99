#include "store/base/library_places.h"

#include <algorithm>
#include <string_view>

namespace dlaunch::store {

namespace {

std::string parent(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos || slash == 0 ? "" : path.substr(0, slash);
}

void add(std::vector<std::string>& all, const std::string& one) {
  if (!one.empty() && std::ranges::find(all, one) == all.end()) all.push_back(one);
}

}  // namespace

std::vector<std::string> python_prefixes(const VariableLookup& environment,
                                         bool (*is_file)(const std::string& path)) {
  std::vector<std::string> prefixes;
  add(prefixes, environment("VIRTUAL_ENV").value_or(""));
  add(prefixes, environment("CONDA_PREFIX").value_or(""));
  const std::string path = environment("PATH").value_or("");
  for (std::string_view rest = path; !rest.empty();) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    const std::string folder(rest.substr(0, colon));
    rest.remove_prefix(std::min(colon + 1, rest.size()));
    if (folder.empty() || !is_file(folder + "/python3")) continue;
    add(prefixes, parent(folder));
    break;
  }
  return prefixes;
}

std::vector<std::string> library_places(const std::vector<std::string>& names,
                                        const std::vector<std::string>& wheels,
                                        const std::vector<std::string>& package_folders,
                                        const VariableLookup& environment) {
  std::vector<std::string> places = names;
  const auto in_folder = [&](const std::string& folder) {
    for (const std::string& name : names) add(places, std::string(folder).append("/").append(name));
  };
  for (const char* const variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string home = environment(variable).value_or("");
    if (!home.empty()) in_folder(home + "/lib64");
  }
  for (const std::string& packages : package_folders) {
    for (const std::string& wheel : wheels) in_folder(std::string(packages).append("/").append(wheel));
  }
  return places;
}

}  // namespace dlaunch::store
