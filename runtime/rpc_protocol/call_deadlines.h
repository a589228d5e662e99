// The deadlines of calls, the earliest first. Nearly all calls have the same timeout, so their deadlines are
// in the order of the calls: these are in a queue. The others are in a set.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include "dlaunch/backend.h"

namespace dlaunch::internal {

class CallDeadlines {
 public:
  // A call's, with which it is removed.
  struct Entry {
    Deadline deadline = Deadline::max();
    std::uint64_t number = 0;  // of the call; 0: it has no deadline
    std::uint64_t place = 0;   // in the queue; 0: never there
  };

  // REQUIRES: no other call has the number, which is not 0.
  Entry add(Deadline deadline, std::uint64_t number) {
    if (deadline == Deadline::max()) return {};
    if (!queue_.empty() && deadline < queue_.back().first) {
      others_.emplace(deadline, number);
      return {deadline, number, 0};
    }
    queue_.emplace_back(deadline, number);
    ++waiting_;
    const Entry entry{deadline, number, first_ + queue_.size() - 1};
    if (queue_.size() > 2 * waiting_ + most_removed) pass_first();
    return entry;
  }
  // REQUIRES: it was not removed before.
  void remove(const Entry& entry) {
    if (entry.number == 0) return;
    if (entry.place < first_) {
      others_.erase({entry.deadline, entry.number});
      return;
    }
    queue_[entry.place - first_].second = 0;
    --waiting_;
    drop_removed();
  }

  // max() if there is none.
  [[nodiscard]] Deadline next() const {
    const Deadline queued = queue_.empty() ? Deadline::max() : queue_.front().first;
    return others_.empty() ? queued : std::min(queued, others_.begin()->first);
  }
  // How many deadlines take memory.
  [[nodiscard]] std::size_t kept() const { return queue_.size() + others_.size(); }
  // A call whose deadline is `now` or earlier, of several the one with the earliest; it is not removed.
  [[nodiscard]] std::optional<std::uint64_t> passed(Deadline now) const {
    const Deadline first = next();
    if (first == Deadline::max() || first > now) return std::nullopt;
    const bool is_queued = !queue_.empty() && queue_.front().first == first;
    return is_queued ? queue_.front().second : others_.begin()->second;
  }

 private:
  using One = std::pair<Deadline, std::uint64_t>;  // the second: the call; 0: it was removed
  // So many, and as many as wait, may be between those that wait: behind a call that takes long.
  static constexpr std::size_t most_removed = 1024;

  void pass_first() {
    others_.insert(queue_.front());
    queue_.pop_front();
    ++first_;
    --waiting_;
    drop_removed();
  }
  void drop_removed() {
    while (!queue_.empty() && queue_.front().second == 0) {
      queue_.pop_front();
      ++first_;
    }
  }

  std::deque<One> queue_;    // the first one was not removed
  std::uint64_t first_ = 1;  // its place
  std::size_t waiting_ = 0;  // those in the queue that were not removed
  std::set<One> others_;
};

}  // namespace dlaunch::internal
