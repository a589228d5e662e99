// This host's name, for messages.
#pragma once

#include <unistd.h>

#include <string>

namespace dlaunch::internal {

inline std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "an unnamed host";
}

}  // namespace dlaunch::internal
