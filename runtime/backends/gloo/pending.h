// Somebody who waits for Gloo, as the transport's watcher sees him.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>

#include "dlaunch/error.h"
#include "runtime/backends/gloo/gloo_transport.h"
#include "runtime/deadline.h"

namespace dlaunch {

// Given to Gloo's waits, which the watcher ends before: long, but not so long that Gloo's clock overflows.
inline constexpr auto never = std::chrono::hours(24 * 365);

// What the watcher sees of a message: when it is late, and how to end the wait for it.
class GlooTransport::Pending {
 public:
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  // From the watcher, with the owner's mutex held: the wait, running or to come, returns without success.
  virtual void end_wait() = 0;
  // From the watcher, with the owner's mutex held: a rank has left in order.
  virtual void hear_of_departure() {}
  // Whether nobody would miss it: the watcher may sleep.
  [[nodiscard]] virtual bool is_idle() const { return false; }
  [[nodiscard]] bool is_late() const {
    return has_passed(Deadline(Deadline::duration(deadline_.load(std::memory_order_relaxed))));
  }

 protected:
  explicit Pending(GlooTransport& owner) : owner_(owner) {}
  ~Pending() = default;

  // While enrolled the watcher looks after it. Throws if the transport has ended.
  void enrol() {
    const std::lock_guard lock(owner_.mutex_);
    if (owner_.ended_) throw DistNetworkError(*owner_.ended_, {.peer = owner_.blamed_});
    place_ = owner_.under_way_.size();
    owner_.under_way_.push_back(this);
    ++owner_.posted_;
    if (owner_.watcher_sleeps_) owner_.changed_.notify_all();
  }
  void resign() {
    const std::lock_guard lock(owner_.mutex_);
    strike_off();
  }
  // The same, with the owner's mutex held.
  void strike_off() {
    Pending* const last = owner_.under_way_.back();
    owner_.under_way_[place_] = last;
    last->place_ = place_;
    owner_.under_way_.pop_back();
  }
  void set_deadline(Deadline deadline) {
    deadline_.store(deadline.time_since_epoch().count(), std::memory_order_relaxed);
  }
  [[nodiscard]] bool has_deadline() const {
    return deadline_.load(std::memory_order_relaxed) != Deadline::max().time_since_epoch().count();
  }

  GlooTransport& owner_;

 private:
  std::atomic<Deadline::rep> deadline_{Deadline::max().time_since_epoch().count()};
  std::size_t place_ = 0;  // in owner_.under_way_; protected by its mutex
};

}  // namespace dlaunch
