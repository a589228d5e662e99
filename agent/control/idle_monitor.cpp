#include "agent/control/idle_monitor.h"

#include <algorithm>

namespace dlaunch::agent {

void IdleMonitor::begin(TimePoint now) {
  looked_ = idle_since_ = now;
  last_ = {};
}

Duration IdleMonitor::observe(TimePoint now, const WorkerUsage& usage, Duration latest) {
  const Duration passed = now - looked_;
  if (passed > latest || is_used(usage, passed)) {
    idle_since_ = now;
    allowed_.assign(usage.cpu.size(), most_at_once);
  }
  looked_ = now;
  last_ = usage;
  return now - idle_since_;
}

// Less than before: a process of it has ended.
bool IdleMonitor::is_used(const WorkerUsage& usage, Duration passed) {
  if (usage.printed != last_.printed || usage.cpu.size() != last_.cpu.size()) return true;
  for (std::size_t i = 0; i < usage.cpu.size(); ++i) {
    const Duration used = usage.cpu[i] - last_.cpu[i];
    allowed_[i] = std::min(allowed_[i] + passed * percent / 100, most_at_once) - used;
    if (used < Duration(0) || allowed_[i] < Duration(0)) return true;
  }
  return false;
}

}  // namespace dlaunch::agent
