// What the coordinator does about ranks that keep the others waiting.
#include <string>

#include "agent/control/coordinator.h"

namespace dlaunch::agent {

void Coordinator::on_arrivals(TimePoint now, MemberId member, const ArrivalsReport& report,
                              CoordinatorActions& out) {
  const Membership::Node& node = *membership_.find(member);
  if (report.round != world_.round || state_ != State::running || !node.active) return;
  stragglers_.add(now, report.arrivals);
  if (const auto note = stragglers_.take_note(now)) {
    Failure place;
    place.rank = note->rank;
    place_worker(place, world_);
    const std::string rank = std::to_string(note->rank) + " (pid " + std::to_string(note->pid) +
                             (place.host.empty() ? "" : " on host " + place.host) + ")";
    out.emplace_back(LogMessage{Severity::warning, describe(*note) + "; dlaunch dump " + job_.id +
                                                       " there shows what rank " + rank + " does"});
  }
  out.emplace_back(ToMember{member, LatenessReport{world_.round, lateness(now, node)}});
}

Lateness Coordinator::lateness(TimePoint now, const Membership::Node& node) {
  Lateness lateness;
  if (const auto& worst = stragglers_.recent_worst(now)) lateness.straggler = describe(*worst);
  const WorldMember& placed = world_.members[static_cast<std::size_t>(node.index)];
  const auto& ranks = stragglers_.ranks();
  const auto end = ranks.lower_bound(placed.base_rank + placed.slots);
  for (auto rank = ranks.lower_bound(placed.base_rank); rank != end; ++rank)
    lateness.ranks.push_back(rank->second);
  return lateness;
}

}  // namespace dlaunch::agent
