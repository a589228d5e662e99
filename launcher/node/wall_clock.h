// The time of day, for reports and events. Deadlines use the loop's clock.
#pragma once

#include <cstdint>
#include <ctime>

namespace dlaunch::launcher {

// Since 1970.
inline std::int64_t unix_us() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1'000'000 + now.tv_nsec / 1000;
}
inline std::int64_t unix_ms() { return unix_us() / 1000; }

}  // namespace dlaunch::launcher
