#include "agent/control/hang_judge.h"

#include <algorithm>

#include "store/base/printable.h"

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
  for (GroupStanding& group : all) {
    for (RankStanding& rank : group.here) {
      const auto end = ends_.find(rank.rank);
      if (rank.condition == Condition::ended && rank.how_ended.empty() && end != ends_.end())
        rank.how_ended = end->second;
    }
  }
  return diagnose(std::move(all));
}

std::string HangJudge::end_of(int rank) const {
  constexpr std::size_t longest = 64;
  if (const auto end = ends_.find(rank); end != ends_.end()) return end->second;
  for (const auto& [member, progress] : told_) {
    for (const GroupStanding& group : progress.groups) {
      for (const RankStanding& here : group.here) {
        if (here.rank == rank && !here.how_ended.empty())
          return shortened(printable(here.how_ended), longest);
      }
    }
  }
  return "";
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
  place_worker(failure, world);
  return failure;
}

}  // namespace dlaunch::agent
