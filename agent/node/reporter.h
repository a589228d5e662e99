// Where messages for people go. The launcher prints them; tests keep them.
#pragma once

#include "agent/model/log_message.h"

namespace dlaunch::agent {

class Reporter {
 public:
  virtual ~Reporter() = default;
  virtual void report(const LogMessage& message) = 0;
};

}  // namespace dlaunch::agent
