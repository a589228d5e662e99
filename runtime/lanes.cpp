#include "runtime/lanes.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace dlaunch {

namespace {

bool share_memory(const std::optional<Lanes::Memory>& one, const std::optional<Lanes::Memory>& other) {
  if (!one || !other) return true;
  const std::less<const std::byte*> before;
  return std::ranges::any_of(*one, [&](std::span<const std::byte> a) {
    return std::ranges::any_of(*other, [&](std::span<const std::byte> b) {
      return before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
    });
  });
}

}  // namespace

Lanes::Lanes(int count) : lanes_(static_cast<std::size_t>(count)) {}

Lanes::~Lanes() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    for (Lane& lane : lanes_) lane.changed.notify_all();
  }
  for (Lane& lane : lanes_) {
    if (lane.thread.joinable()) lane.thread.join();
  }
}

void Lanes::run(std::uint64_t number, const std::function<void(int lane)>& operation) {
  drain();
  operation(lane_of(number));
}

void Lanes::post(Operation operation) {
  const std::lock_guard lock(mutex_);
  const int lane = lane_of(operation.number);
  entries_.push_back({std::move(operation), lane});
  Lane& its = lanes_[static_cast<std::size_t>(lane)];
  if (!its.thread.joinable()) its.thread = std::thread([this, lane] { work(lane); });
  its.changed.notify_all();
}

void Lanes::drain() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return entries_.empty() && !reporting_; });
}

void Lanes::work(int lane) {
  std::unique_lock lock(mutex_);
  for (;;) {
    bool none_left = false;
    Entry* const entry = next_for(lane, none_left);
    if (!entry) {
      if (ending_ && none_left) return;
      lanes_[static_cast<std::size_t>(lane)].changed.wait(lock);
      continue;
    }
    lock.unlock();
    entry->operation.run(lane);
    entry->operation.run = nullptr;  // what it holds goes before anybody is told that it has ended
    lock.lock();
    entry->done = true;
    for (Lane& other : lanes_) other.changed.notify_all();
    report_ends(lock);
  }
}

// The lane's next operation, if it may begin. With mutex_ held.
Lanes::Entry* Lanes::next_for(int lane, bool& none_left) {
  const auto next = std::ranges::find_if(
      entries_, [lane](const Entry& entry) { return entry.lane == lane && !entry.done; });
  none_left = next == entries_.end();
  if (none_left) return nullptr;
  const bool must_wait = std::any_of(entries_.begin(), next, [&](const Entry& earlier) {
    return !earlier.done && share_memory(earlier.operation.memory, next->operation.memory);
  });
  return must_wait ? nullptr : &*next;
}

// In order, by one thread at a time.
void Lanes::report_ends(std::unique_lock<std::mutex>& lock) {
  if (reporting_) return;
  reporting_ = true;
  while (!entries_.empty() && entries_.front().done) {
    const auto report = std::move(entries_.front().operation.report);
    entries_.pop_front();
    lock.unlock();
    report();
    lock.lock();
  }
  reporting_ = false;
  if (entries_.empty()) idle_.notify_all();
}

}  // namespace dlaunch
