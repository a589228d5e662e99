// A sentence for the log, and its severity. State machines do not log: they return these.
#pragma once

#include <string>

namespace dlaunch::agent {

enum class Severity {
  debug,    // for --verbose
  info,     // progress that users want to see: which node is waited for, why the job restarts
  warning,  // something is wrong, and dlaunch handles it
};

struct LogMessage {
  Severity severity = Severity::debug;
  std::string text;
  bool operator==(const LogMessage&) const = default;
};

}  // namespace dlaunch::agent
