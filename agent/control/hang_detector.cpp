#include "agent/control/hang_detector.h"

#include <algorithm>

#include "agent/model/remedy.h"
#include "store/base/sanitize.h"
#include "store/base/text.h"

namespace dlaunch::agent {
namespace {

// A worker waits in init_process_group, or for a key of a store.
bool has_minor_wait(const Progress& progress) {
  const auto group = std::ranges::find(progress.groups, GroupProgress::outside, &GroupProgress::identity);
  return group != progress.groups.end() && std::ranges::any_of(group->here, &RankProgress::waits_otherwise);
}

std::string host_of(int rank, const World& world) {
  Failure place;
  place.rank = rank;
  place_worker(place, world);
  return place.host;
}

std::string with_host(int rank, const World& world) {
  const std::string host = host_of(rank, world);
  return "rank " + std::to_string(rank) + (host.empty() ? "" : " (" + host + ")");
}

// "no byte from rank 0 (nodeA) to rank 2 (nodeB) has been acknowledged for 6 s, 5 retransmissions: ...".
std::string describe_link(const LinkStall& stall, const World& world) {
  const StalledLink& link = stall.link;
  const std::string from = with_host(stall.from, world);
  const std::string to = with_host(link.peer, world);
  const std::string time = " for " + to_words(link.silent);
  if (link.is_full)
    return to + " has taken no bytes of " + from + time + ", though its host answers: it is stopped or busy";
  return (stall.both_ways ? "no byte between " + from + " and " + to + " has been acknowledged"
                          : "no byte from " + from + " to " + to + " has been acknowledged") +
         time + ", " + pluralize(link.retransmissions, "retransmission") +
         ": a firewall drops them, or a cable is broken";
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

Duration HangDetector::idle(MemberId member) const {
  const auto report = reports_.find(member);
  return report == reports_.end() ? Duration(0) : report->second.idle;
}

Duration HangDetector::idle(const Membership& membership) const {
  Duration least = Duration::max();
  for (const auto& [member, node] : membership.nodes()) {
    if (node.active && !node.done) least = std::min(least, idle(member));
  }
  return least == Duration::max() ? Duration(0) : least;
}

void HangDetector::take_records(MemberId member, std::vector<GroupProgress> groups) {
  records_[member] = {std::move(groups), idle(member)};
}

bool HangDetector::has_all_records(const Membership& membership) const {
  return std::ranges::all_of(membership.nodes(), [&](const auto& entry) {
    return !entry.second.active || entry.second.done || records_.contains(entry.first);
  });
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
  for (const auto& [member, records] : records_) {
    const Duration since = std::max(Duration(0), idle(member) - records.idle);
    for (GroupProgress group : records.groups) {
      for (RankProgress& rank : group.here) {
        if (rank.waits()) rank.waited += since;
      }
      all.push_back(std::move(group));
    }
  }
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

std::string HangDetector::advice_on_link(const Diagnosis& diagnosis, const World& world) {
  if (!diagnosis.link || diagnosis.link->link.is_full) return "";
  const std::string from = host_of(diagnosis.link->from, world);
  const std::string to = host_of(diagnosis.link->link.peer, world);
  return from.empty() || to.empty() || from == to ? "" : "dlaunch doctor --peer=" + to + " on host " + from;
}

std::string HangDetector::advice_on_devices(const Diagnosis& diagnosis, const World& world,
                                            bool is_there) const {
  using Devices = Diagnosis::Devices;
  if (diagnosis.devices == Devices::not_known) return "";
  if (diagnosis.devices == Devices::all_in_it) {
    std::vector<std::string> hosts;
    for (const WorldMember& member : world.members) {
      if (std::ranges::find(hosts, member.host) == hosts.end()) hosts.push_back(member.host);
    }
    return remedy_of_stuck_devices(hosts);
  }
  return remedy_of_late_device(placed(diagnosis.missing.front(), world), is_there);
}

std::string HangDetector::advice_on_stopped(const Diagnosis& diagnosis, const World& world) const {
  if (diagnosis.missing.empty() || !is_stopped(diagnosis.missing.front())) return "";
  return remedy_of_stopped_rank(placed(diagnosis.missing.front(), world));
}

Failure HangDetector::placed(int rank, const World& world) const {
  Failure failure;
  failure.rank = rank;
  place_worker(failure, world);
  if (const RankProgress* const progress = find(rank)) failure.pid = progress->pid;
  return failure;
}

Failure HangDetector::failure(const Diagnosis& diagnosis, const World& world) const {
  Failure failure = describe_stall(to_words(limit_) + " (--hang-timeout)", diagnosis, world);
  if (const RankProgress* const progress = find(failure.rank)) failure.pid = progress->pid;
  failure.unnoticed = limit_;
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
  if (diagnosis.link) {
    failure.why += "; " + describe_link(*diagnosis.link, world);
    failure.remedy = advice_on_link(diagnosis, world);
  }
  if (diagnosis.missing.empty()) return failure;
  failure.rank = diagnosis.missing.front();
  place_worker(failure, world);
  return failure;
}

}  // namespace dlaunch::agent
