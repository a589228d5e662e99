#include "agent/control/progress_reports.h"

#include <utility>
#include <vector>

namespace dlaunch::agent {

void ProgressReports::begin_round(TimePoint now) {
  monitor_.begin(now);
  idle_monitor_.begin(now);
  quiet_ = Duration(0);
  stall_reported_ = last_look_taken_ = false;
  if (monitor_.is_on()) look_at_ = now + monitor_.period();
}

std::optional<bool> ProgressReports::take_look(TimePoint now) {
  if (!look_at_ || now < *look_at_) return std::nullopt;
  look_at_ = now + monitor_.period();
  return quiet_ >= monitor_.report_after();
}

bool ProgressReports::take_last_look() {
  if (std::exchange(last_look_taken_, true)) return false;
  look_at_.reset();
  return true;
}

std::optional<Progress> ProgressReports::take(TimePoint now, std::uint32_t round, const WorkersSeen& seen) {
  quiet_ = monitor_.is_on() ? monitor_.observe(now, seen.activity) : Duration(0);
  Progress progress{round,
                    quiet_,
                    seen.activity.open > 0,
                    seen.group_progress.value_or(std::vector<GroupProgress>{}),
                    monitor_.polling(),
                    idle(now, seen)};
  // Ranks that the end finds on their way to their first group explain nothing.
  const auto is_outside = [](const GroupProgress& g) { return g.identity == GroupProgress::outside; };
  if (last_look_taken_) std::erase_if(progress.groups, is_outside);
  const bool moves_again = quiet_ < monitor_.report_after() && stall_reported_;
  if (!seen.group_progress && !moves_again) return std::nullopt;
  stall_reported_ = !moves_again;
  if (last_look_taken_ && progress.groups.empty()) return std::nullopt;
  return bounded(std::move(progress));
}

// Workers with pages are judged by these.
Duration ProgressReports::idle(TimePoint now, const WorkersSeen& seen) {
  if (!monitor_.is_on() || !seen.usage) return Duration(0);
  const Duration idle = idle_monitor_.observe(now, *seen.usage, monitor_.latest_look());
  return seen.activity.pages == 0 ? idle : Duration(0);
}

}  // namespace dlaunch::agent
