#include "agent/control/hang_detector.h"

#include <algorithm>

#include "store/base/sanitize.h"

namespace dlaunch::agent {
namespace {

// A worker waits in init_process_group, or for a key of a store.
bool has_minor_wait(const Progress& progress) {
  const auto group = std::ranges::find(progress.groups, GroupProgress::outside, &GroupProgress::identity);
  return group != progress.groups.end() && std::ranges::any_of(group->here, &RankProgress::waits_otherwise);
}

}  // namespace

Duration HangDetector::stall(const Membership& membership, Duration polling, bool with_minor) const {
  bool any_waits = false;
  Duration least = Duration::max();
  for (const auto& [member, node] : membership.nodes()) {
    if (!node.active || node.done) continue;
    const auto report = reports_.find(member);
    if (report == reports_.end()) return Duration(0);
    const Progress& progress = report->second;
    least = std::min(least, progress.quiet);
    any_waits = any_waits || progress.inside || (polling > Duration(0) && progress.polling >= polling) ||
                (with_minor && has_minor_wait(progress));
  }
  return any_waits ? least : Duration(0);
}

// A stack comes once; the reports after it are without.
void HangDetector::take(MemberId member, Progress progress) {
  constexpr std::size_t longest = 4096;
  for (const GroupProgress& group : progress.groups) {
    for (const RankProgress& here : group.here) {
      if (!here.stack.empty()) stacks_[here.rank] = here.stack.substr(0, longest);
    }
  }
  reports_[member] = std::move(progress);
}

std::string HangDetector::stack_of(int rank) const {
  const auto stack = stacks_.find(rank);
  return stack == stacks_.end() ? "" : stack->second;
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

const RankProgress* HangDetector::find(int rank) const {
  const RankProgress* found = nullptr;
  for (const auto& [member, progress] : reports_) {
    for (const GroupProgress& group : progress.groups) {
      for (const RankProgress& here : group.here) {
        if (here.rank != rank) continue;
        if (here.pid > 0) return &here;
        found = &here;
      }
    }
  }
  return found;
}

Failure HangDetector::failure(const Diagnosis& diagnosis, const World& world) const {
  Failure failure = describe_stall(to_words(limit_) + " (--hang-timeout)", diagnosis, world);
  if (const RankProgress* const progress = find(failure.rank)) failure.pid = progress->pid;
  return failure;
}

Event HangDetector::note(const Diagnosis& diagnosis, const World& world, Duration stall) const {
  constexpr std::size_t longest = 100;
  Failure missing = describe_stall(to_words(stall), diagnosis, world);
  const RankProgress* const progress = find(missing.rank);
  if (progress != nullptr) missing.pid = progress->pid;
  Event note{EventKind::stalled, world.round, missing.node_rank, missing.host, missing.rank, missing.pid};
  note.text = describe(missing);
  // The diagnosis names those that are stopped or have ended.
  const bool is_named =
      progress == nullptr || progress->condition != Condition::runs || progress->state.empty();
  if (!is_named) {
    note.text += "; rank " + std::to_string(missing.rank) + " " +
                 shortened(sanitize_for_terminal(progress->state), longest);
  }
  return note;
}

Failure HangDetector::describe_stall(const std::string& how_long, const Diagnosis& diagnosis,
                                     const World& world) {
  Failure failure;
  failure.kind = FailureKind::hang;
  failure.round = world.round;
  failure.why = "nothing has moved for " + how_long + ": " +
                (diagnosis.sentences.empty() ? "a rank waits for a message or for other ranks"
                                             : diagnosis.sentences.front());
  if (diagnosis.missing.empty()) return failure;
  failure.rank = diagnosis.missing.front();
  place_worker(failure, world);
  return failure;
}

}  // namespace dlaunch::agent
