// What the nodes report of their ranks while somebody looks at the job's page. Pure.
//
// A report has about 400 bytes a rank. While nobody looks, there are none.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "agent/control/membership.h"
#include "agent/model/node_ranks.h"

namespace dlaunch::agent {

class RanksReports {
 public:
  // However many look, the nodes are asked no more often.
  static constexpr Duration shortest_pause = std::chrono::milliseconds(500);

  // Whether the nodes are to be asked now. Of another rank the lines are requested at once.
  bool may_request(TimePoint now, int rank_with_lines) {
    const bool is_same = rank_with_lines < 0 || rank_with_lines == rank_with_lines_;
    if (is_same && requested_ && now < *requested_ + shortest_pause) return false;
    requested_ = now;
    if (rank_with_lines >= 0) rank_with_lines_ = rank_with_lines;
    return true;
  }
  void take(MemberId member, NodeRanks ranks) { nodes_[member] = std::move(ranks); }
  void forget(MemberId member) { nodes_.erase(member); }

  // By node rank.
  [[nodiscard]] std::vector<NodeRanks> nodes() const {
    std::vector<NodeRanks> all;
    for (const auto& [member, node] : nodes_) all.push_back(node);
    std::ranges::stable_sort(all, {}, &NodeRanks::node_rank);
    return all;
  }

 private:
  std::optional<TimePoint> requested_;
  int rank_with_lines_ = -1;
  std::map<MemberId, NodeRanks> nodes_;
};

}  // namespace dlaunch::agent
