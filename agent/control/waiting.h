// A wait with a deadline that is reported to the user now and then. Pure.
#pragma once

#include "store/base/time.h"

namespace dlaunch::agent {

class Waiting {
 public:
  // The first report comes after this long, and each further one after the second.
  static constexpr Duration first_report = std::chrono::seconds(5);
  static constexpr Duration next_report = std::chrono::seconds(10);

  Waiting(TimePoint now, Duration timeout)
      : since_(now), deadline_(now + timeout), report_at_(now + first_report) {}

  // The wait goes on for another reason, with a deadline of its own. The reports keep their pace.
  void renew(TimePoint now, Duration timeout) {
    since_ = now;
    deadline_ = now + timeout;
  }
  // True: a report is due, and the next one is scheduled.
  bool take_report(TimePoint now) {
    if (now < report_at_) return false;
    report_at_ = now + next_report;
    return true;
  }

  [[nodiscard]] TimePoint since() const { return since_; }
  [[nodiscard]] TimePoint deadline() const { return deadline_; }
  [[nodiscard]] TimePoint report_at() const { return report_at_; }
  [[nodiscard]] bool is_over(TimePoint now) const { return now >= deadline_; }

 private:
  TimePoint since_;
  TimePoint deadline_;
  TimePoint report_at_;
};

}  // namespace dlaunch::agent
