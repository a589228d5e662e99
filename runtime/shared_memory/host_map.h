// Which ranks of a group share memory: those of one host, as far as they can. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace dlaunch::internal {

// The same on all ranks of the group.
class HostMap {
 public:
  // `keys`, by rank: equal if two ranks share memory.
  template <class Key>
  static HostMap of(std::span<const Key> keys) {
    HostMap map;
    std::vector<Key> known;
    for (const Key& key : keys) {
      const auto found = std::ranges::find(known, key);
      const auto host = static_cast<std::size_t>(found - known.begin());
      if (found == known.end()) {
        known.push_back(key);
        map.ranks_.emplace_back();
      }
      map.hosts_.push_back(host);
      map.ranks_[host].push_back(static_cast<int>(map.hosts_.size() - 1));
    }
    return map;
  }

  // Hosts are counted in the order of their lowest ranks.
  [[nodiscard]] std::size_t hosts() const { return ranks_.size(); }
  [[nodiscard]] std::size_t ranks() const { return hosts_.size(); }
  [[nodiscard]] std::size_t host_of(int rank) const { return hosts_[static_cast<std::size_t>(rank)]; }
  // Ascending.
  [[nodiscard]] const std::vector<int>& ranks_of(std::size_t host) const { return ranks_[host]; }
  // The place of a rank among those of its host.
  [[nodiscard]] std::size_t place_of(int rank) const {
    const std::vector<int>& ranks = ranks_of(host_of(rank));
    return static_cast<std::size_t>(std::ranges::lower_bound(ranks, rank) - ranks.begin());
  }

 private:
  std::vector<std::size_t> hosts_;       // by rank
  std::vector<std::vector<int>> ranks_;  // by host
};

}  // namespace dlaunch::internal
