// The folders into which pip installs NVIDIA's libraries.
#pragma once

#include <string>
#include <vector>

#include "store/base/library_places.h"

namespace dlaunch::store {

// Those that exist, sorted: lib/python3*/{site,dist}-packages/nvidia of python_prefixes().
std::vector<std::string> nvidia_wheel_folders(const VariableLookup& environment);

}  // namespace dlaunch::store
