// Announced messages, by the peer's rank and the sender's number, each with a deadline. All but take_all()
// take constant time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/deadline_queue.h"

namespace dlaunch::internal {

template <class Message>
class PendingMessages {
 public:
  struct Id {
    int peer;
    std::uint64_t number;
    bool operator==(const Id&) const = default;
  };

  // REQUIRES: this id is unused.
  void add(Id id, Deadline deadline, Message message) {
    all_.emplace(id, Entry{std::move(message), deadlines_.add(deadline, id)});
  }

  // Null: no such message.
  [[nodiscard]] const Message* find(Id id) const {
    const auto found = all_.find(id);
    return found == all_.end() ? nullptr : &found->second.message;
  }
  std::optional<Message> take(Id id) {
    const auto found = all_.find(id);
    if (found == all_.end()) return std::nullopt;
    std::optional<Message> message = std::move(found->second.message);
    deadlines_.remove(found->second.expiry);
    all_.erase(found);
    return message;
  }

  [[nodiscard]] bool is_empty() const { return all_.empty(); }
  // max() if there is none.
  [[nodiscard]] Deadline next_deadline() const { return deadlines_.next(); }
  // A message whose deadline has passed.
  std::optional<Message> take_expired(Deadline now) {
    const std::optional<Id> id = deadlines_.passed(now);
    return id ? take(*id) : std::nullopt;
  }
  // To or from this rank, or any; in the order of their numbers.
  std::vector<Message> take_all(std::optional<int> peer) {
    std::vector<Id> ids;
    for (const auto& [id, entry] : all_) {
      if (!peer || id.peer == *peer) ids.push_back(id);
    }
    std::ranges::sort(ids, {}, &Id::number);
    std::vector<Message> taken;
    taken.reserve(ids.size());
    for (const Id& id : ids) taken.push_back(*take(id));
    return taken;
  }

 private:
  struct Entry {
    Message message;
    typename DeadlineQueue<Id>::Entry expiry;
  };
  struct Hash {
    std::size_t operator()(const Id& id) const {
      return static_cast<std::size_t>(id.number ^ (static_cast<std::uint64_t>(id.peer) << 40U));
    }
  };

  std::unordered_map<Id, Entry, Hash> all_;
  DeadlineQueue<Id> deadlines_;
};

}  // namespace dlaunch::internal
