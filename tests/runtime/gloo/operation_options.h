// Short forms of the options of operations.
#pragma once

#include <dlaunch/distributed.h>

#include <cstdint>

namespace dlaunch::test {

inline CollectiveOptions async() {
  CollectiveOptions options;
  options.async_op = true;
  return options;
}

inline PointToPointOptions tagged(std::uint32_t tag) { return {{.tag = tag, .timeout = {}}, {}}; }

}  // namespace dlaunch::test
