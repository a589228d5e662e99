#include "runtime/rpc/looked_at_links.h"

#include <chrono>

#include "runtime/base/quick_clock.h"
#include "runtime/shared_memory/futex.h"

namespace dlaunch::internal {

void LookedAtLinks::add(const std::shared_ptr<Link>& link) {
  if (link->is_looked_at.exchange(true)) return;
  const std::lock_guard lock(mutex_);
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
  for (const auto& link : links) link->look();
  Deadline until = QuickClock::now() + spin_limit;
  bool has_passed = false;
  while (!has_passed && !is_needed()) {
    bool has_some = false;
    for (int i = 0; i < looks_per_clock && !has_some; ++i) {
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
  if (has_passed || !comes_back()) stop_looking(links, attend);
}

void LookedAtLinks::leave(const std::shared_ptr<Link>& link) {
  if (link->is_left.exchange(true)) return;
  const std::lock_guard lock(mutex_);
  left_.push_back(link);
}

// A thread that drives a connection now will leave it again.
void LookedAtLinks::stop_looking(const Attend& attend) {
  Links left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(left_);
  }
  for (const auto& link : left) link->is_left = false;
  std::erase_if(left, [](const auto& link) { return link->is_read(); });
  stop_looking(left, attend);
  stop_looking(all(), attend);
}

void LookedAtLinks::stop_looking(const Links& links, const Attend& attend) {
  for (const auto& link : links) {
    if (link->stop_looking()) attend(link);
  }
}

}  // namespace dlaunch::internal
