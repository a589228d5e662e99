// The messages between two ranks of a group: which receive gets which send. Pure.
//
// Both sides count: a receive tells the sender that it is ready, and the n-th ready of a slot belongs to the
// n-th send to it. So nothing is sent that has no place, and a connection is never held up by a message that
// nobody receives. A receive that was given up keeps its place in the order; what comes for it is dropped.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>

#include "runtime/backends/gloo/connection.h"

namespace dlaunch {

class SlotMatcher {
 public:
  // Whether its receive is ready: the message is to be sent now. Otherwise it waits.
  bool post_send(std::uint64_t slot, const std::shared_ptr<Outgoing>& message) {
    Slot& here = slots_[slot];
    if (here.ready == 0) {
      here.sends.push_back(message);
      return false;
    }
    --here.ready;
    forget_empty(slot);
    return true;
  }
  // The message that is to be sent now; null: there is none yet.
  std::shared_ptr<Outgoing> ready(std::uint64_t slot) {
    Slot& here = slots_[slot];
    if (here.sends.empty()) {
      ++here.ready;
      return nullptr;
    }
    std::shared_ptr<Outgoing> message = std::move(here.sends.front());
    here.sends.pop_front();
    forget_empty(slot);
    return message;
  }
  [[nodiscard]] std::size_t waiting_sends(std::uint64_t slot) const {
    const auto found = slots_.find(slot);
    return found == slots_.end() ? 0 : found->second.sends.size();
  }
  // Of a message that waits. Nothing happens if it does not.
  void withdraw(std::uint64_t slot, const std::shared_ptr<Outgoing>& message) {
    const auto found = slots_.find(slot);
    if (found == slots_.end()) return;
    std::erase(found->second.sends, message);
    forget_empty(slot);
  }

  void post_receive(std::uint64_t slot, const std::shared_ptr<Incoming>& message) {
    slots_[slot].receives.push_back(message);
  }
  // Whom the next part to this slot belongs to; null: nobody has asked for it.
  [[nodiscard]] std::shared_ptr<Incoming> receiving(std::uint64_t slot) const {
    const auto found = slots_.find(slot);
    return found == slots_.end() || found->second.receives.empty() ? nullptr : found->second.receives.front();
  }
  // The message has ended; null as above.
  std::shared_ptr<Incoming> end_receive(std::uint64_t slot) {
    std::shared_ptr<Incoming> message = receiving(slot);
    if (!message) return nullptr;
    slots_[slot].receives.pop_front();
    forget_empty(slot);
    return message;
  }

 private:
  struct Slot {
    std::deque<std::shared_ptr<Outgoing>> sends;     // that wait, in order
    std::uint64_t ready = 0;                         // receives there that no send has come for
    std::deque<std::shared_ptr<Incoming>> receives;  // in order, also those that were given up
  };

  void forget_empty(std::uint64_t slot) {
    const auto found = slots_.find(slot);
    const Slot& here = found->second;
    if (here.sends.empty() && here.ready == 0 && here.receives.empty()) slots_.erase(found);
  }

  std::unordered_map<std::uint64_t, Slot> slots_;
};

}  // namespace dlaunch
