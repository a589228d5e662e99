#include "agent/control/fenced_hosts.h"

#include <algorithm>

namespace dlaunch::agent {

void FencedHosts::add(const std::string& address, TimePoint until) {
  if (address.empty()) return;
  TimePoint& known = hosts_[address];
  known = std::max(known, until);
}

std::set<std::string> FencedHosts::without(const Membership& here, TimePoint now) {
  for (const auto& [member, node] : here.nodes()) hosts_.erase(node.address);
  std::erase_if(hosts_, [now](const auto& host) { return host.second <= now; });
  std::set<std::string> found;
  for (const auto& [address, until] : hosts_) found.insert(address);
  return found;
}

}  // namespace dlaunch::agent
