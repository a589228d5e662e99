// Deadlines of waiting entries, the earliest first. These take constant time: adding the latest deadline so
// far (nearly all are), removing one, and reading the first.
#pragma once

#include <map>
#include <optional>

#include "dlaunch/backend.h"

namespace dlaunch::internal {

template <class What>
class DeadlineQueue {
 public:
  using Entry = typename std::multimap<Deadline, What>::iterator;

  Entry add(Deadline deadline, What what) { return all_.emplace_hint(all_.end(), deadline, what); }
  void remove(Entry entry) { all_.erase(entry); }

  [[nodiscard]] bool is_empty() const { return all_.empty(); }
  // max() if there is none.
  [[nodiscard]] Deadline next() const { return all_.empty() ? Deadline::max() : all_.begin()->first; }
  // An entry whose deadline is `now` or earlier; the caller removes it.
  [[nodiscard]] std::optional<What> passed(Deadline now) const {
    if (all_.empty() || all_.begin()->first > now) return std::nullopt;
    return all_.begin()->second;
  }

 private:
  std::multimap<Deadline, What> all_;
};

}  // namespace dlaunch::internal
