#include "agent/control/lost_places.h"

#include <algorithm>

namespace dlaunch::agent {

void LostPlaces::add(const std::string& address, TimePoint until) {
  if (address.empty()) return;
  TimePoint& known = places_[address];
  known = std::max(known, until);
}

std::set<std::string> LostPlaces::without(const Roster& here, TimePoint now) {
  for (const auto& [member, node] : here.nodes()) places_.erase(node.address);
  std::erase_if(places_, [now](const auto& place) { return place.second <= now; });
  std::set<std::string> found;
  for (const auto& [address, until] : places_) found.insert(address);
  return found;
}

}  // namespace dlaunch::agent
