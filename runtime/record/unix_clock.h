// The clock that people and other hosts share.
#pragma once

#include <chrono>
#include <cstdint>

namespace dlaunch::internal {

inline std::int64_t unix_ns() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace dlaunch::internal
