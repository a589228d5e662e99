// The coordinator's texts: for messages, the status page and the events.
#include "agent/control/coordinator.h"

#include <algorithm>
#include <utility>

#include "store/base/sanitize.h"
#include "store/base/text.h"

namespace dlaunch::agent {
namespace {

// "1, 2 and 5"; numbers after the eighth are only counted.
std::string describe(const std::vector<int>& numbers) {
  constexpr std::size_t shown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(numbers.size(), shown); ++i) {
    if (i > 0) text += i + 1 == numbers.size() ? " and " : ", ";
    text += std::to_string(numbers[i]);
  }
  if (numbers.size() > shown) text += " and " + std::to_string(numbers.size() - shown) + " more";
  return text;
}

std::string describe(Coordinator::State state) {
  switch (state) {
    case Coordinator::State::standby:
      return "standby";
    case Coordinator::State::gathering:
      return "gathering";
    case Coordinator::State::running:
      return "running";
    case Coordinator::State::stopping:
    case Coordinator::State::collecting:
      return "stopping";
    case Coordinator::State::ending:
      return "ending";
    case Coordinator::State::ended:
      return "ended";
  }
  return "";
}

std::string describe(const Membership::Node& node, Coordinator::State state) {
  if (node.leaves()) return "leaving";
  if (node.done) return "done";
  if (state == Coordinator::State::gathering || state == Coordinator::State::standby)
    return node.stopped ? "joined" : "stopping";
  if (!node.active) return "spare";
  return state == Coordinator::State::running ? "running" : node.stopped ? "stopped" : "stopping";
}

}  // namespace

WorldView Coordinator::view(TimePoint now) const {
  WorldView view;
  view.job = job_.id;
  view.endpoint = to_string(world_.store);
  view.state = describe(state_);
  view.waiting_for = waiting_for(now);
  view.min_nodes = job_.required_nodes();
  view.max_nodes = job_.nnodes;
  view.max_restarts = job_.max_restarts;
  view.restarts_used = world_.restarts_used;
  if (formed_) {
    view.round = static_cast<int>(world_.round);
    view.world_size = world_.world_size;
    view.age_s = to_seconds(now - job_began_);
  }
  for (const auto& [member, node] : membership_.nodes()) {
    NodeView one{node.joined.node_rank, node.joined.host, node.joined.slots, -1, describe(node, state_)};
    if (node.active && node.index >= 0) {
      const WorldMember& placed = world_.members[static_cast<std::size_t>(node.index)];
      one.node_rank = placed.node_rank;
      one.first_rank = placed.base_rank;
    }
    view.nodes.push_back(std::move(one));
  }
  std::stable_sort(view.nodes.begin(), view.nodes.end(), [](const NodeView& a, const NodeView& b) {
    return static_cast<unsigned>(a.node_rank) < static_cast<unsigned>(b.node_rank);
  });
  for (const Restart& restart : world_.restarts)
    view.incidents.push_back(
        {restart.counted ? restart.number : 0, to_seconds(restart.after), describe(restart.cause)});
  view.collectives = hang_detector_.diagnosis().sentences;
  if (const auto late = state_ == State::running ? stragglers_.worst(now) : std::nullopt)
    view.collectives.push_back(describe(*late));
  return view;
}

std::string Coordinator::waiting_for(TimePoint now) const {
  switch (state_) {
    case State::standby: {
      if (job_.elected || follows_another_ || membership_.nodes().empty()) return "";
      ShortList here;
      for (const auto& [member, node] : membership_.nodes()) here.add(node.joined.host);
      return "a majority, " + std::to_string(leadership_.quorum()) + " of " +
             pluralize(job_.nnodes + job_.spares, "node") + ", to join at one endpoint (at " +
             to_string(world_.store) + ": " + here.text() + ")";
    }
    case State::gathering:
      if (membership_.ready() < job_.required_nodes()) return missing();
      if (!membership_.all_stopped()) return not_stopped();
      if (now < not_before_) return "the next start, in " + to_words(not_before_ - now);
      return last_call_.until()
                 ? "more nodes, for another " + to_words(std::max(Duration(0), *last_call_.until() - now))
                 : "the nodes to answer";
    case State::stopping:
    case State::collecting:
    case State::ending:
      return membership_.all_stopped() ? "" : not_stopped();
    case State::running:
    case State::ended:
      return "";
  }
  return "";
}

std::string Coordinator::not_stopped() const {
  ShortList names;
  for (const auto& [member, node] : membership_.nodes()) {
    if (!node.stopped) names.add(name_of(node));
  }
  return "the workers of " + names.text() + " to stop";
}

std::string Coordinator::missing() const {
  if (const std::vector<int> absent = missing_ranks(); !absent.empty()) {
    return (absent.size() == 1 ? "node " : "nodes ") + describe(absent) + " of " +
           std::to_string(job_.nnodes);
  }
  ShortList here;
  for (const auto& [member, node] : membership_.nodes()) {
    if (!node.leaves()) here.add(node.joined.host);
  }
  return pluralize(std::max(0, job_.required_nodes() - here.count()), "more node") + " of " +
         (job_.required_nodes() < job_.nnodes ? "at least " : "") + std::to_string(job_.required_nodes()) +
         (here.count() == 0 ? "" : " (here: " + here.text() + ")");
}

std::vector<int> Coordinator::missing_ranks() const {
  const bool by_rank = job_.required_nodes() == job_.nnodes &&
                       std::all_of(membership_.nodes().begin(), membership_.nodes().end(),
                                   [](const auto& n) { return n.second.joined.node_rank >= 0; });
  if (!by_rank) return {};
  std::set<int> present;
  for (const auto& [member, node] : membership_.nodes()) present.insert(node.joined.node_rank);
  std::vector<int> absent;
  for (int i = 0; i < job_.nnodes; ++i) {
    if (!present.contains(i)) absent.push_back(i);
  }
  return absent;
}

Event Coordinator::event_of(EventKind kind, const Membership::Node& node, std::string text) const {
  Event event{kind, world_.round};
  event.node_rank = node.rank();
  event.host = node.joined.host;
  event.text = std::move(text);
  return event;
}

std::string Coordinator::name_of(const Membership::Node& node) const {
  const int rank = node.rank();
  return rank < 0 ? "host " + node.joined.host
                  : "node " + std::to_string(rank) + " (host " + node.joined.host + ")";
}

}  // namespace dlaunch::agent
