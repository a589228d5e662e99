// Formats a point in time for people.
#pragma once

#include <cstdint>
#include <string>

namespace dlaunch::launcher {

// "14:03:07", in this machine's time zone.
std::string clock_time(std::int64_t unix_ms);

}  // namespace dlaunch::launcher
