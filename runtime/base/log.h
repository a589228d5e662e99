// The library's log. dlaunch/debug.h describes which messages are shown.
#pragma once

#include <atomic>
#include <string>

#include "dlaunch/debug.h"

namespace dlaunch::internal {

// What the environment allows. LogLevel::info: it was not read yet, or the debug level counts, too.
extern constinit std::atomic<LogLevel> allowed_log_level;

// Costs a load with the levels that programs run with.
inline bool logs(LogLevel level) {
  const LogLevel allowed = allowed_log_level.load(std::memory_order_relaxed);
  return level <= (allowed == LogLevel::info ? get_log_level() : allowed);
}

// The debug level's number; -1: it was not read yet.
extern constinit std::atomic<int> debug_level_number;

// Whether ranks compare their calls. Costs a load.
inline bool is_debug_detail() {
  const int number = debug_level_number.load(std::memory_order_relaxed);
  return (number >= 0 ? static_cast<DebugLevel>(number) : get_debug_level()) == DebugLevel::detail;
}

// Any thread.
void log(LogLevel level, const std::string& message);

}  // namespace dlaunch::internal
