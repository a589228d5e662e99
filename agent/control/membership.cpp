#include "agent/control/membership.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace dlaunch::agent {
namespace {

std::vector<NodeBlock> blocks_of(const std::vector<WorldMember>& members) {
  std::vector<NodeBlock> blocks;
  for (const WorldMember& member : members) {
    if (blocks.empty() || blocks.back().slots != member.slots) blocks.push_back({0, member.slots});
    ++blocks.back().nodes;
  }
  return blocks.size() <= max_node_blocks ? blocks : std::vector<NodeBlock>{};
}

template <class Key>
std::optional<MemberId> found_in(const std::multimap<Key, MemberId>& index, Key key) {
  const auto found = index.find(key);
  return found == index.end() ? std::nullopt : std::optional(found->second);
}

template <class Key>
void erase_from(std::multimap<Key, MemberId>& index, Key key, MemberId member) {
  const auto [first, last] = index.equal_range(key);
  const auto found =
      std::find_if(first, last, [member](const auto& entry) { return entry.second == member; });
  if (found != last) index.erase(found);
}

}  // namespace

Membership::Node& Membership::add(MemberId member, Join join, std::string address, TimePoint now) {
  remove(member);
  Node& node = nodes_[member];
  node.sticky_rank = join.joined_once ? join.sticky_rank : -1;
  node.stopped = join.stopped;
  node.joined = std::move(join);
  node.address = std::move(address);
  node.arrival = arrivals_++;
  node.last_heard = node.came = now;
  node.own = node.joined.stamp;
  by_agent_.emplace(node.joined.agent, member);
  if (node.joined.node_rank >= 0) by_rank_.emplace(node.joined.node_rank, member);
  ++changes_;
  return node;
}

std::optional<Membership::Node> Membership::remove(MemberId member) {
  const auto found = nodes_.extract(member);
  if (!found) return std::nullopt;
  Node& node = found.mapped();
  erase_from(by_agent_, node.joined.agent, member);
  erase_from(by_rank_, node.joined.node_rank, member);
  leaving_ -= node.leaves_ ? 1 : 0;
  ++changes_;
  return std::move(node);
}

Membership::Node* Membership::find(MemberId member) {
  const auto found = nodes_.find(member);
  return found == nodes_.end() ? nullptr : &found->second;
}

void Membership::set_leaving(MemberId member) {
  if (std::exchange(nodes_.at(member).leaves_, true)) return;
  ++leaving_;
  ++changes_;
}

int Membership::staying() const {
  return static_cast<int>(std::count_if(nodes_.begin(), nodes_.end(), [](const auto& n) {
    return !n.second.leaves_ && n.second.joined.stays;
  }));
}

template <class Holds>
bool Membership::is_true_of_all(MemberId& exception, const Holds& holds) const {
  const auto first = nodes_.lower_bound(exception);
  auto found = std::find_if_not(first, nodes_.end(), holds);
  if (found == nodes_.end()) {
    found = std::find_if_not(nodes_.begin(), first, holds);
    if (found == first) return true;
  }
  exception = found->first;
  return false;
}

bool Membership::all_have_answered(TimePoint since) const {
  return is_true_of_all(not_answered_, [&](const auto& n) {
    return n.first == local_member || n.second.leaves_ || n.second.echoed >= since;
  });
}

bool Membership::all_stopped() const {
  return is_true_of_all(not_stopped_, [](const auto& n) { return n.second.stopped; });
}

bool Membership::all_done() const {
  return is_true_of_all(not_done_, [](const auto& n) { return !n.second.active || n.second.done; });
}

bool Membership::any_done() const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [](const auto& n) { return n.second.active && n.second.done; });
}

std::optional<MemberId> Membership::of_agent(AgentId agent) const { return found_in(by_agent_, agent); }

std::optional<MemberId> Membership::of_rank(int node_rank) const { return found_in(by_rank_, node_rank); }

void Membership::choose(int most, World& world) {
  std::vector<Node*> order;
  for (auto& [member, node] : nodes_) {
    node.active = node.done = false;
    node.index = -1;
    if (!node.leaves_) order.push_back(&node);
  }
  const auto claim = [](const Node* n) {
    const bool is_sticky = n->sticky_rank >= 0;
    const bool wants = n->joined.node_rank >= 0;
    return std::tuple(is_sticky ? 0
                      : wants   ? 1
                                : 2,
                      is_sticky ? n->sticky_rank
                      : wants   ? n->joined.node_rank
                                : 0,
                      n->arrival);
  };
  std::sort(order.begin(), order.end(), [&](const Node* a, const Node* b) { return claim(a) < claim(b); });
  if (order.size() > static_cast<std::size_t>(most)) order.resize(static_cast<std::size_t>(most));

  std::set<int> taken;
  std::vector<Node*> without;
  for (Node* node : order) {
    const int wanted = node->sticky_rank >= 0 ? node->sticky_rank : node->joined.node_rank;
    if (wanted >= 0 && wanted < most && taken.insert(wanted).second) {
      node->sticky_rank = wanted;
    } else {
      without.push_back(node);
    }
  }
  int sticky_rank = 0;
  for (Node* node : without) {
    while (!taken.insert(sticky_rank).second) ++sticky_rank;
    node->sticky_rank = sticky_rank;
  }

  std::sort(order.begin(), order.end(),
            [](const Node* a, const Node* b) { return a->sticky_rank < b->sticky_rank; });
  world.members.clear();
  world.world_size = 0;
  std::map<std::string_view, int> workers_of;  // by role: as many as there were until now, then all
  for (Node* node : order) {
    node->active = true;
    node->stopped = false;
    node->index = static_cast<int>(world.members.size());
    const Join& joined = node->joined;
    int& of_its_role = workers_of[joined.role];
    world.members.push_back({node->index, joined.slots, world.world_size, joined.host, joined.agent,
                             node->sticky_rank, of_its_role});
    world.world_size += joined.slots;
    of_its_role += joined.slots;
  }
  for (const Node* node : order)
    world.members[static_cast<std::size_t>(node->index)].role_world_size = workers_of[node->joined.role];
  world.nodes = static_cast<int>(world.members.size());
  world.blocks = blocks_of(world.members);
}

}  // namespace dlaunch::agent
