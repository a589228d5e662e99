// The hosts of nodes that were lost with workers alive. These workers may live for some time, and must not
// connect to a later round's store. Pure.
#pragma once

#include <map>
#include <set>
#include <string>

#include "agent/control/membership.h"
#include "store/base/time.h"

namespace dlaunch::agent {

class FencedHosts {
 public:
  // Workers at `address` are gone at `until` at the latest.
  void add(const std::string& address, TimePoint until);
  // The hosts where such workers may still run. Not the hosts of present nodes: their agents have ended them.
  std::set<std::string> without(const Membership& here, TimePoint now);

 private:
  std::map<std::string, TimePoint> hosts_;
};

}  // namespace dlaunch::agent
