#include "agent/control/admission.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "agent/model/job_rules.h"
#include "agent/model/restart_policy.h"
#include "store/base/sanitize.h"
#include "store/base/text.h"

namespace dlaunch::agent {
namespace {

// A rule that differs, in bytes: an endpoint list fits.
constexpr std::size_t longest_difference = 1000;

std::string printable(const std::string& text) {
  return shortened(sanitize_for_terminal(text), longest_difference);
}

}  // namespace

Admission::Admission(const JobSpec& job) : job_(job), rules_(rules_of(job)) {}

Admission::Refusal Admission::reason_to_refuse(const Join& join, const Situation& now) const {
  if (now.ending) return {"the job is ending", ""};
  if (join.job_id != job_.id) {
    return {"this is job '" + job_.id + "', not '" + join.job_id + "'",
            printable("start host " + join.host + " with --rdzv-id=" + job_.id + ", or give job '" +
                      join.job_id + "' an endpoint of its own")};
  }
  if (const std::string why = difference(rules_, join.rules); !why.empty())
    return {printable(why), printable(remedy_of_difference(rules_, join.rules, join.host))};
  if (Refusal refusal = out_of_range(join); !refusal.why.empty()) return refusal;
  if (Refusal refusal = left_out(join, now); !refusal.why.empty()) return refusal;
  return no_room(join, now);
}

Admission::Refusal Admission::out_of_range(const Join& join) const {
  if (join.role.size() > longest_role)
    return {"its --role is longer than " + std::to_string(longest_role) + " bytes",
            "start host " + join.host + " with a shorter --role"};
  if (join.round > last_round) return {"there is no round " + std::to_string(join.round), ""};
  if (join.node_rank >= job_.nnodes) {
    return {"--node-rank=" + std::to_string(join.node_rank) +
                " is outside --nnodes=" + std::to_string(job_.nnodes),
            "start host " + join.host + " with a --node-rank from 0 to " + std::to_string(job_.nnodes - 1)};
  }
  if (join.slots < 1 || join.slots > max_slots)
    return {std::to_string(join.slots) + " is not a valid number of workers", ""};
  return {};
}

Admission::Refusal Admission::left_out(const Join& join, const Situation& now) const {
  const int failures = failures_of(join.host, now.restarts);
  const bool needed = join.joined_once || now.here.ready() < now.fewest;
  if (job_.policy.exclude_after <= 0 || failures < job_.policy.exclude_after || needed) return {};
  return {
      "host " + join.host + " is excluded: it failed " + pluralize(failures, "time") + " (--exclude-after)",
      "repair host " + join.host + ", or raise --exclude-after on all nodes (it is " +
          std::to_string(job_.policy.exclude_after) + ")"};
}

Admission::Refusal Admission::no_room(const Join& join, const Situation& now) const {
  // If nodes are replaced, the one that comes may know of the other's end before the coordinator does.
  const auto taken = join.node_rank < 0 || job_.elastic() ? std::nullopt : now.here.of_rank(join.node_rank);
  if (taken) {
    return {"--node-rank=" + std::to_string(join.node_rank) + " is taken by host " +
                now.here.nodes().at(*taken).joined.host,
            free_ranks(join, now.here)};
  }
  if (!now.forming && !job_.elastic()) {
    return {"all nodes of the job have joined already",
            "start the job with --nnodes=" + std::to_string(job_.nnodes) + ":" +
                std::to_string(job_.nnodes + 1) + " to let more nodes join while it runs"};
  }
  if (now.here.nodes().size() >= static_cast<std::size_t>(max_nodes)) return {"there are too many nodes", ""};
  return {};
}

// The ranks that a node of a fixed job may still take; empty: none.
std::string Admission::free_ranks(const Join& join, const Membership& here) const {
  ShortList ranks;
  for (int rank = 0; rank < job_.nnodes; ++rank) {
    if (!here.of_rank(rank)) ranks.add(std::to_string(rank));
  }
  if (ranks.count() == 0) return "";
  return "start host " + join.host + " with another --node-rank; no node has " + ranks.text() + " yet";
}

std::string Admission::reason_to_wait(const Join& join, const Membership& here, bool believed) const {
  // One of those that are here may be lost already, and this one its successor.
  const bool by_majority = job_.may_move() && !job_.elected;
  if (by_majority && here.ready() >= job_.nnodes + job_.spares) {
    return "this job already has its " + pluralize(job_.nnodes, "node") +
           (job_.spares > 0 ? " and " + pluralize(job_.spares, "spare") : "");
  }
  if (!believed) {
    return "its fencing token " + std::to_string(join.fencing) +
           " is more than a day ahead of this node's clock; set the clocks of all nodes to the same time";
  }
  return "";
}

void Admission::remember(const std::string& peer, const std::string& why, std::string remedy) {
  constexpr std::size_t kept = 4;
  constexpr std::size_t longest = 200;
  const std::string refusal = shortened(sanitize_for_terminal(peer + " (" + why), longest) + ")";
  std::erase(refusals_, refusal);
  refusals_.push_back(refusal);
  remedy_ = std::move(remedy);
  if (refusals_.size() > kept) refusals_.erase(refusals_.begin());
}

std::string Admission::refused_meanwhile() const {
  std::string text;
  for (const std::string& refusal : refusals_)
    text.append(text.empty() ? "; refused meanwhile: " : ", ").append(refusal);
  return text;
}

}  // namespace dlaunch::agent
