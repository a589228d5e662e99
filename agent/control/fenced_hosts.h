// Where nodes ran that were lost with workers alive: these may live for some time, and must not come to a
// later round's store. Pure.
#pragma once

#include <map>
#include <set>
#include <string>

#include "agent/control/membership.h"
#include "store/base/time.h"

namespace dlaunch::agent {

class FencedHosts {
 public:
  // What ran at `address` is gone at `until` at the latest.
  void add(const std::string& address, TimePoint until);
  // Those where something may run yet. Not where one of the nodes is that are here: its own agent has seen to
  // that.
  std::set<std::string> without(const Membership& here, TimePoint now);

 private:
  std::map<std::string, TimePoint> hosts_;
};

}  // namespace dlaunch::agent
