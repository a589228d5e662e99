// Deadlines of what waits, the earliest first. Adding one that is the latest so far, as it nearly always is,
// removing one and looking at the first take constant time.
#pragma once

#include <map>
#include <optional>

#include "dlaunch/backend.h"

namespace dlaunch {

template <class What>
class DeadlineQueue {
 public:
  using Entry = typename std::multimap<Deadline, What>::iterator;

  Entry add(Deadline deadline, What what) { return all_.emplace_hint(all_.end(), deadline, what); }
  void remove(Entry entry) { all_.erase(entry); }

  [[nodiscard]] bool is_empty() const { return all_.empty(); }
  // max() if nothing waits.
  [[nodiscard]] Deadline next() const { return all_.empty() ? Deadline::max() : all_.begin()->first; }
  // One whose deadline is `now` or was before; the caller removes it.
  [[nodiscard]] std::optional<What> passed(Deadline now) const {
    if (all_.empty() || all_.begin()->first > now) return std::nullopt;
    return all_.begin()->second;
  }

 private:
  std::multimap<Deadline, What> all_;
};

}  // namespace dlaunch
