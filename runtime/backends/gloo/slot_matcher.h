// Which receive gets which send, between two ranks of a group. Pure.
//
// Both sides count: a receive sends `ready`, and the n-th ready of a slot belongs to the n-th send to that
// slot. So every message that is sent has its memory, and no message without a receive blocks a connection. A
// receive that was given up keeps its position; its message is dropped.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>

#include "runtime/backends/gloo/connection.h"

namespace dlaunch::internal {

class SlotMatcher {
 public:
  // True: its receive is ready, so send the message now. Otherwise the message waits.
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
  // The message to send now; null: none yet.
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
  // For a message that waits. Does nothing if it does not wait.
  void withdraw(std::uint64_t slot, const std::shared_ptr<Outgoing>& message) {
    const auto found = slots_.find(slot);
    if (found == slots_.end()) return;
    std::erase(found->second.sends, message);
    forget_empty(slot);
  }

  void post_receive(std::uint64_t slot, const std::shared_ptr<Incoming>& message) {
    slots_[slot].receives.push_back(message);
  }
  // The receive of the slot's next part; null: nobody has asked for it.
  [[nodiscard]] std::shared_ptr<Incoming> receiving(std::uint64_t slot) const {
    const auto found = slots_.find(slot);
    return found == slots_.end() || found->second.receives.empty() ? nullptr : found->second.receives.front();
  }
  // The message has ended. Returns null as above.
  std::shared_ptr<Incoming> end_receive(std::uint64_t slot) {
    std::shared_ptr<Incoming> message = receiving(slot);
    if (!message) return nullptr;
    slots_[slot].receives.pop_front();
    forget_empty(slot);
    return message;
  }

 private:
  struct Slot {
    std::deque<std::shared_ptr<Outgoing>> sends;     // waiting, in order
    std::uint64_t ready = 0;                         // receives of the peer without a send yet
    std::deque<std::shared_ptr<Incoming>> receives;  // in order, with those that were given up
  };

  void forget_empty(std::uint64_t slot) {
    const auto found = slots_.find(slot);
    const Slot& here = found->second;
    if (here.sends.empty() && here.ready == 0 && here.receives.empty()) slots_.erase(found);
  }

  std::unordered_map<std::uint64_t, Slot> slots_;
};

}  // namespace dlaunch::internal
