// The log: one line an event, levels, on stderr. Only this file uses spdlog.
#pragma once

#include <functional>
#include <string_view>

#include "store/base/namespaces.h"

namespace dlaunch::store::log {

enum class Level { trace, debug, info, warning, error, off };

// Call once, before threads exist. `name` begins every line, in colour if `colour` is set. Lines, each with
// its end, go to `write`.
void start(std::string_view name, Level level, bool colour, std::function<void(std::string_view)> write);
// Returns to plain writing to stderr: call it before what `write` uses is destroyed.
void stop();
void set_level(Level level);
bool enabled(Level level);

// Understands trace, debug, info, warning (warn), error (critical), off, in any case, and torchrun's LOGLEVEL
// values (also numbers 10, 20, ...). Anything else: `fallback`.
Level parse_level(std::string_view text, Level fallback);

void trace(std::string_view text);
void debug(std::string_view text);
void info(std::string_view text);
void warning(std::string_view text);
void error(std::string_view text);

}  // namespace dlaunch::store::log
