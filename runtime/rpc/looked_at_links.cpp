#include "runtime/rpc/looked_at_links.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "runtime/base/quick_clock.h"
#include "runtime/shared_memory/futex.h"

namespace dlaunch::internal {

void LookedAtLinks::add(const std::shared_ptr<Link>& link) {
  const std::lock_guard lock(mutex_);
  if (link->is_looked_at) return;
  const auto is_socket = [](const std::shared_ptr<Link>& one) { return !one->shares_memory(); };
  if (is_socket(link) && std::ranges::count_if(links_, is_socket) >= std::ptrdiff_t{most_sockets}) return;
  link->is_looked_at = true;
  links_.push_back(link);
}

void LookedAtLinks::remove(const std::shared_ptr<Link>& link) {
  const std::lock_guard lock(mutex_);
  std::erase(links_, link);
}

LookedAtLinks::Links LookedAtLinks::all() const {
  const std::lock_guard lock(mutex_);
  return links_;
}

void LookedAtLinks::look(const FunctionRef<bool()>& is_needed, const FunctionRef<bool()>& comes_back,
                         const Attend& attend) {
  const std::unique_lock looking(looking_mutex_, std::try_to_lock);
  if (!looking) return;
  const Links links = all();
  if (links.empty()) return;
  is_looking_ = true;
  ++looks_;
  bool all_share_memory = true;
  for (const auto& link : links) {
    link->look();
    all_share_memory = all_share_memory && link->shares_memory();
  }
  const int looks = all_share_memory ? looks_per_clock : 1;
  Deadline until = QuickClock::now() + spin_limit;
  bool has_passed = false;
  while (!has_passed && !is_needed()) {
    bool has_some = false;
    for (int i = 0; i < looks && !has_some; ++i) {
      processor_pause();
      for (const auto& link : links) {
        if (!link->has_something()) continue;
        has_some = true;
        attend(link);
      }
    }
    const Deadline now = QuickClock::now();
    if (has_some) until = now + spin_limit;
    has_passed = now >= until;
  }
  if (has_passed) {
    const std::lock_guard lock(mutex_);
    for (const auto& link : links_) link->is_looked_at = false;
    links_.clear();
  }
  is_looking_ = false;
  if (has_passed || !comes_back()) stop_looking(links, attend);
}

void LookedAtLinks::leave(const std::shared_ptr<Link>& link) {
  if (link->is_left.exchange(true)) return;
  const std::lock_guard lock(mutex_);
  left_.push_back(link);
}

bool LookedAtLinks::relieve(const Attend& attend) {
  bool again = false;
  Links stopped = take_those_left(again);
  {
    const std::lock_guard lock(mutex_);
    const std::uint64_t looks = looks_;
    const bool is_stuck = !is_looking_ && looks == std::exchange(looks_before_, looks);
    if (is_stuck) {
      stopped.insert(stopped.end(), links_.begin(), links_.end());
    } else {
      again = again || !links_.empty();
    }
  }
  stop_looking(stopped, attend);
  return again;
}

// Those to which no thread has come back since the last call.
LookedAtLinks::Links LookedAtLinks::take_those_left(bool& others_remain) {
  const std::lock_guard lock(mutex_);
  Links stuck;
  for (const auto& link : std::exchange(left_, {})) {
    link->is_left = false;  // first: one that ends to drive it now leaves it again
    if (link->is_driven()) continue;
    if (!link->was_driven()) {
      stuck.push_back(link);
    } else if (!link->is_left.exchange(true)) {
      left_.push_back(link);
    }
  }
  others_remain = !left_.empty();
  return stuck;
}

void LookedAtLinks::stop_looking(const Links& links, const Attend& attend) {
  for (const auto& link : links) {
    if (link->stop_looking()) attend(link);
  }
}

}  // namespace dlaunch::internal
