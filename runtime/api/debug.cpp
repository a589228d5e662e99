#include "dlaunch/debug.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/log.h"
#include "runtime/base/process_environment.h"

namespace dlaunch {
using namespace internal;

namespace {

LogHandler& handler() {
  static LogHandler& only = *new LogHandler;
  return only;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// The first of two variables that is set.
std::optional<std::pair<std::string, std::string>> either(const char* own, const char* torchs) {
  for (const char* const name : {own, torchs}) {
    if (auto value = process_environment(name)) return std::pair(std::string(name), upper(*value));
  }
  return std::nullopt;
}

DebugLevel level_from_environment() {
  const auto found = either("DLAUNCH_DISTRIBUTED_DEBUG", "TORCH_DISTRIBUTED_DEBUG");
  if (!found) return DebugLevel::off;
  for (const DebugLevel level : {DebugLevel::off, DebugLevel::info, DebugLevel::detail}) {
    if (to_string(level) == found->second) return level;
  }
  throw DistError("the environment variable " + found->first + ": '" + found->second +
                  "' is not OFF, INFO or DETAIL");
}

}  // namespace

inline namespace v1 {

std::string_view to_string(DebugLevel level) {
  switch (level) {
    case DebugLevel::off:
      return "OFF";
    case DebugLevel::info:
      return "INFO";
    case DebugLevel::detail:
      return "DETAIL";
  }
  return "an unknown level";
}

std::string_view to_string(LogLevel level) {
  switch (level) {
    case LogLevel::error:
      return "error";
    case LogLevel::warning:
      return "warning";
    case LogLevel::info:
      return "info";
    case LogLevel::debug:
      return "debug";
    case LogLevel::trace:
      return "trace";
  }
  return "an unknown level";
}

DebugLevel get_debug_level() {
  if (debug_level_number.load(std::memory_order_relaxed) < 0) set_debug_level_from_env();
  return static_cast<DebugLevel>(debug_level_number.load(std::memory_order_relaxed));
}
void set_debug_level(DebugLevel level) { debug_level_number = static_cast<int>(level); }
void set_debug_level_from_env() { set_debug_level(level_from_environment()); }

LogLevel get_log_level() {
  // Read once: the environment must not be looked into for every operation.
  static const LogLevel wanted = [] {
    const auto found = either("DLAUNCH_CPP_LOG_LEVEL", "TORCH_CPP_LOG_LEVEL");
    LogLevel level = LogLevel::warning;
    if (found && found->second == "ERROR") level = LogLevel::error;
    if (found && found->second == "INFO") level = LogLevel::info;
    allowed_log_level.store(level, std::memory_order_relaxed);
    return level;
  }();
  if (wanted != LogLevel::info) return wanted;
  switch (get_debug_level()) {
    case DebugLevel::off:
      return LogLevel::info;
    case DebugLevel::info:
      return LogLevel::debug;
    case DebugLevel::detail:
      return LogLevel::trace;
  }
  return LogLevel::info;
}

void set_log_handler(LogHandler new_handler) { handler() = std::move(new_handler); }

}  // namespace v1
}  // namespace dlaunch

namespace dlaunch::internal {

constinit std::atomic<LogLevel> allowed_log_level = LogLevel::info;
constinit std::atomic<int> debug_level_number = -1;

void log(LogLevel level, const std::string& message) {
  if (!logs(level)) return;
  if (handler()) return handler()(level, message);
  // One write, so that the lines of several processes do not mix.
  const std::string line = "[dlaunch] " + std::string(to_string(level)) + ": " + message + "\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace dlaunch::internal
