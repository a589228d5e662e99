#include "agent/control/failure_collector.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "agent/model/call_mismatch.h"

namespace dlaunch::agent {

void FailureCollector::add_suspect(const Failure& failure) {
  if (suspects_.size() < most_suspects) suspects_.push_back(brief(failure));
}

void FailureCollector::record(TimePoint when, const Failure& failure) {
  failures_.push_back({when, failures_.size() < most_in_full ? failure : brief(failure)});
}

bool FailureCollector::may_still_end(int blamed_rank, const Membership& here, const World& world) const {
  if (ranks_.contains(blamed_rank)) return false;
  return std::any_of(here.nodes().begin(), here.nodes().end(), [&](const auto& entry) {
    const Membership::Node& node = entry.second;
    if (node.index < 0 || node.done || node.stopped) return false;
    const WorldMember& there = world.members[static_cast<std::size_t>(node.index)];
    return blamed_rank < 0 || (blamed_rank >= there.base_rank && blamed_rank < there.base_rank + there.slots);
  });
}

void FailureCollector::await_blamed_rank(TimePoint until) {
  if (!blamed_until_) blamed_until_ = until;
}

std::optional<std::size_t> FailureCollector::explain_mismatch(std::size_t cause) {
  if (failures_[cause].failure.kind != FailureKind::worker || !failures_[cause].failure.blames_peer)
    return std::nullopt;
  std::vector<std::string_view> outputs;
  outputs.reserve(failures_.size());
  for (const TimedFailure& one : failures_) outputs.push_back(last_output_of(one.failure));
  const auto mismatch = find_call_mismatch(outputs);
  if (!mismatch) return std::nullopt;
  const auto differs = std::find_if(failures_.begin(), failures_.end(), [&](const TimedFailure& one) {
    return one.failure.kind == FailureKind::worker && one.failure.rank == mismatch->rank;
  });
  const auto which =
      differs == failures_.end() ? failures_.begin() + static_cast<std::ptrdiff_t>(cause) : differs;
  which->failure.hint = mismatch->text;
  which->failure.remedy = mismatch->remedy;
  return static_cast<std::size_t>(which - failures_.begin());
}

std::size_t FailureCollector::index_of_cause(const HangDetector& workers, const World& world) {
  std::size_t cause = final_ ? *final_ : root_cause(failures_);
  const std::string ended = workers.end_of(failures_[cause].failure.blamed_rank);
  if (auto blamed_rank = blamed_peer(failures_, cause, suspects_, ended)) {
    place_worker(*blamed_rank, world);
    failures_.push_back({failures_[cause].when, std::move(*blamed_rank)});
    cause = failures_.size() - 1;
  }
  if (const auto mismatch = explain_mismatch(cause); mismatch && !final_) return *mismatch;
  name_suspects(failures_, suspects_, failures_[cause].failure);
  return cause;
}

const TimedFailure& FailureCollector::find_cause(const HangDetector& workers, const World& world) {
  return failures_[index_of_cause(workers, world)];
}

Outcome FailureCollector::take_outcome(const HangDetector& workers, const World& world) {
  const std::size_t cause = index_of_cause(workers, world);
  Outcome outcome;
  summarize_failures(std::move(failures_), cause, outcome);
  outcome.rank_positions = workers.diagnosis().sentences;
  failures_.clear();
  return outcome;
}

}  // namespace dlaunch::agent
