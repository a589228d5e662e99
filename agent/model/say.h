// A sentence that a machine wants to be heard, and how important it is. Machines do not log: they return
// these.
#pragma once

#include <string>

namespace dlaunch::agent {

enum class Loudness {
  detail,    // for --verbose
  progress,  // what a person wants to follow: waiting for whom, restarting why
  trouble,   // something is wrong and is being dealt with
};

struct Say {
  Loudness loudness = Loudness::detail;
  std::string text;
  bool operator==(const Say&) const = default;
};

}  // namespace dlaunch::agent
