#include "agent/control/hang_detector.h"

#include <algorithm>

#include "store/base/sanitize.h"

namespace dlaunch::agent {

bool HangDetector::hangs(const Membership& membership) const {
  if (limit_ == Duration(0)) return false;
  bool any_inside = false;
  for (const auto& [member, node] : membership.nodes()) {
    if (!node.active || node.done) continue;
    const auto report = reports_.find(member);
    if (report == reports_.end() || report->second.quiet < limit_) return false;
    any_inside = any_inside || report->second.inside;
  }
  return any_inside;
}

Diagnosis HangDetector::diagnosis() const {
  std::vector<GroupProgress> all;
  for (const auto& [member, progress] : reports_)
    all.insert(all.end(), progress.groups.begin(), progress.groups.end());
  for (GroupProgress& group : all) {
    for (RankProgress& rank : group.here) {
      const auto end = ends_.find(rank.rank);
      if (rank.condition == Condition::ended && rank.how_ended.empty() && end != ends_.end())
        rank.how_ended = end->second;
    }
  }
  return diagnose(std::move(all));
}

std::string HangDetector::end_of(int rank) const {
  constexpr std::size_t longest = 64;
  if (const auto end = ends_.find(rank); end != ends_.end()) return end->second;
  for (const auto& [member, progress] : reports_) {
    for (const GroupProgress& group : progress.groups) {
      for (const RankProgress& here : group.here) {
        if (here.rank == rank && !here.how_ended.empty())
          return shortened(sanitize_for_terminal(here.how_ended), longest);
      }
    }
  }
  return "";
}

bool HangDetector::is_stopped(int rank) const {
  return std::any_of(reports_.begin(), reports_.end(), [rank](const auto& report) {
    const auto& groups = report.second.groups;
    return std::any_of(groups.begin(), groups.end(), [rank](const GroupProgress& group) {
      return std::any_of(group.here.begin(), group.here.end(), [rank](const RankProgress& one) {
        return one.rank == rank && one.condition == Condition::stopped;
      });
    });
  });
}

Failure HangDetector::failure(const Diagnosis& diagnosis, const World& world) const {
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
