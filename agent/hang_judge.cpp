#include "agent/hang_judge.h"

#include <algorithm>

namespace dlaunch::agent {

bool HangJudge::hangs(const Roster& roster) const {
  if (limit_ == Duration(0)) return false;
  bool any_inside = false;
  for (const auto& [member, node] : roster.nodes()) {
    if (!node.active || node.done) continue;
    const auto told = told_.find(member);
    if (told == told_.end() || told->second.quiet < limit_) return false;
    any_inside = any_inside || told->second.inside;
  }
  return any_inside;
}

Diagnosis HangJudge::diagnosis() const {
  std::vector<GroupStanding> all;
  for (const auto& [member, progress] : told_)
    all.insert(all.end(), progress.groups.begin(), progress.groups.end());
  return diagnose(std::move(all));
}

Failure HangJudge::failure(const Diagnosis& diagnosis, const World& world) const {
  Failure failure;
  failure.kind = FailureKind::hang;
  failure.round = world.round;
  failure.why = "nothing has moved for " + to_words(limit_) + " (--hang-timeout): " +
                (diagnosis.sentences.empty() ? "a rank waits for a message or for other ranks"
                                             : diagnosis.sentences.front());
  if (diagnosis.missing.empty()) return failure;
  failure.rank = diagnosis.missing.front();
  for (const WorldMember& member : world.members) {
    const int local_rank = failure.rank - member.base_rank;
    if (local_rank < 0 || local_rank >= member.slots) continue;
    failure.local_rank = local_rank;
    failure.node_rank = member.node_rank;
    failure.host = member.host;
  }
  return failure;
}

}  // namespace dlaunch::agent
