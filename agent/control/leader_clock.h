// The wall clock of the job's leader, read from a member's own clock: so the times of all hosts of a job can
// be compared. Each answer of the leader carries its clock, and the time at which the member sent what it
// answers: the leader read its clock between that time and now (Cristian, "Probabilistic clock
// synchronization", 1989). Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "agent/model/shared_clock.h"
#include "store/base/time.h"

namespace dlaunch::agent {

class LeaderClock {
 public:
  // Two clocks drift apart by at most this share of the time: quartz by 100 millionths each.
  static constexpr std::int64_t drift_divisor = 5'000;

  // Another connection, or another coordinator leads. `unix_minus_stamp`: its wall clock minus the clock of
  // its stamps, in nanoseconds.
  void begin(std::int64_t unix_minus_stamp);
  // An answer came: the coordinator's clock, and the member's clock when it sent what is answered; 0:
  // unknown.
  void on_answer(TimePoint now, std::int64_t stamp, std::int64_t echo);
  // None: nothing is known of the leader's clock.
  [[nodiscard]] std::optional<SharedClock> read(TimePoint now) const;

 private:
  struct Reading {
    std::int64_t offset_ns;  // the leader's stamps minus this node's clock
    std::int64_t error_ns;   // then
    TimePoint at;
  };
  [[nodiscard]] static std::int64_t error_at(const Reading& reading, TimePoint now);

  std::optional<std::int64_t> unix_minus_stamp_;
  std::optional<Reading> best_;
};

}  // namespace dlaunch::agent
