// How much the library checks and says.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "dlaunch/export.h"

namespace dlaunch {
inline namespace v1 {

// info: more is logged, if the log shows it. detail: before each collective the ranks compare what they call
// (operation, shapes, dtype, reduction, root; of all_to_all that each sends what its receiver expects)
// through the store, which costs a few round trips. Where they differ, or one does not come before the
// deadline, every rank throws DistNetworkError that says who differs and how; nothing has been sent then, and
// the group stays usable. The comparison is made in the call, also of an asynchronous one: a program whose
// ranks call in an order that needs such a call to return first (one starts an all_reduce and then sends what
// another receives before its own all_reduce) ends at the deadline at this level only. monitored_barrier is
// one of the compared calls at this level: one that ended without a rank counts for that rank too, which
// hears of it when it comes.
enum class DebugLevel : std::uint8_t { off, info, detail };

DLAUNCH_EXPORT std::string_view to_string(DebugLevel level);  // "OFF", "INFO", "DETAIL"

// Of the process; any thread. At first it is what the environment says.
DLAUNCH_EXPORT DebugLevel get_debug_level();
DLAUNCH_EXPORT void set_debug_level(DebugLevel level);
// From DLAUNCH_DISTRIBUTED_DEBUG, or else TORCH_DISTRIBUTED_DEBUG: OFF (also if neither is set), INFO or
// DETAIL in any case. Throws DistError where it says something else.
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

// Where messages go; none: to stderr, a line each. Called by any thread, also by several at once, and must
// not call the library. Not to be set while operations run.
using LogHandler = std::function<void(LogLevel level, const std::string& message)>;
DLAUNCH_EXPORT void set_log_handler(LogHandler handler);

}  // namespace v1
}  // namespace dlaunch
