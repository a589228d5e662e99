// How much the library checks and logs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "dlaunch/export.h"

namespace dlaunch {
inline namespace v1 {

// info: more is logged, if the log level shows it. detail: before each collective the ranks compare their
// calls (operation, shapes, dtype, reduction, root; for all_to_all also that each sends what its receiver
// expects) through the store, which costs a few round trips. If the calls differ, or a rank does not call
// before the deadline, every rank throws DistNetworkError that names the ranks and the difference; nothing
// has been sent then, and the group stays usable. The call itself compares, also an asynchronous one. So a
// program that relies on such a call to return first (one rank starts an all_reduce and then sends what
// another receives before its own all_reduce) fails at the deadline, at this level only. monitored_barrier is
// one of the compared calls at this level: if it ended without a rank, it still counts for that rank, whose
// later call throws the same error.
enum class DebugLevel : std::uint8_t { off, info, detail };

DLAUNCH_EXPORT std::string_view to_string(DebugLevel level);  // "OFF", "INFO", "DETAIL"

// The process's level; any thread. The environment sets its initial value.
DLAUNCH_EXPORT DebugLevel get_debug_level();
DLAUNCH_EXPORT void set_debug_level(DebugLevel level);
// From DLAUNCH_DISTRIBUTED_DEBUG, or else TORCH_DISTRIBUTED_DEBUG: OFF (also if neither is set), INFO or
// DETAIL, in upper or lower case. Throws DistError for other values.
DLAUNCH_EXPORT void set_debug_level_from_env();

// What is logged: messages up to a level that DLAUNCH_CPP_LOG_LEVEL, or else TORCH_CPP_LOG_LEVEL, and the
// debug level set together, as torch.distributed has it:
//
//   LOG_LEVEL   DEBUG     shows
//   ERROR       any       error
//   WARNING     any       warning       (also if it is not set)
//   INFO        OFF       info
//   INFO        INFO      debug
//   INFO        DETAIL    trace         every operation
enum class LogLevel : std::uint8_t { error, warning, info, debug, trace };

DLAUNCH_EXPORT std::string_view to_string(LogLevel level);  // "error"
DLAUNCH_EXPORT LogLevel get_log_level();

// Receives the messages; none: they go to stderr, a line each. Called by any thread, also by several at once;
// must not call the library. Do not set it while operations run.
using LogHandler = std::function<void(LogLevel level, const std::string& message)>;
DLAUNCH_EXPORT void set_log_handler(LogHandler handler);

}  // namespace v1
}  // namespace dlaunch
