// Where a shared library of NVIDIA may be, in the order in which to look. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/base/namespaces.h"

namespace dlaunch::store {

// The value of a variable, if it is set.
using VariableLookup = std::function<std::optional<std::string>(std::string_view name)>;

// The installations whose packages this process may mean: of VIRTUAL_ENV, CONDA_PREFIX, and the first python3
// in PATH. `is_file`: whether there is one.
std::vector<std::string> python_prefixes(const VariableLookup& environment,
                                         bool (*is_file)(const std::string& path));

// The names to give to dlopen(): those of `names` by themselves, so that the loader's path and
// LD_LIBRARY_PATH count; then in CUDA_HOME and CUDA_PATH; then in the wheels, whose folders within the
// packages are `wheels`.
std::vector<std::string> library_places(const std::vector<std::string>& names,
                                        const std::vector<std::string>& wheels,
                                        const std::vector<std::string>& package_folders,
                                        const VariableLookup& environment);

}  // namespace dlaunch::store
