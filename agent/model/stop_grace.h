// The time that workers have between the signal that stops them and SIGKILL.
#pragma once

#include <algorithm>
#include <csignal>
#include <map>

#include "store/base/time.h"

namespace dlaunch::agent {

struct StopGrace {
  Duration usual{};
  std::map<int, Duration> after{};  // by signal, for those with a time of their own

  [[nodiscard]] Duration of(int signo) const {
    const auto own = after.find(signo);
    return own == after.end() ? usual : own->second;
  }
  // The signal that workers receive if `signo` shall stop them. With a grace of zero it is SIGKILL, because
  // any other signal would only start handlers that are killed midway.
  [[nodiscard]] int sent_for(int signo) const { return of(signo) > Duration::zero() ? signo : SIGKILL; }
  [[nodiscard]] Duration longest() const {
    Duration longest = usual;
    for (const auto& [signo, time] : after) longest = std::max(longest, time);
    return longest;
  }
  bool operator==(const StopGrace&) const = default;
};

}  // namespace dlaunch::agent
