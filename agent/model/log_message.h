// A sentence that a machine wants to be heard, and how important it is. Machines do not log: they return
// these.
#pragma once

#include <string>

namespace dlaunch::agent {

enum class Severity {
  debug,    // for --verbose
  info,     // what a person wants to follow: waiting for whom, restarting why
  warning,  // something is wrong and is being dealt with
};

struct LogMessage {
  Severity severity = Severity::debug;
  std::string text;
  bool operator==(const LogMessage&) const = default;
};

}  // namespace dlaunch::agent
