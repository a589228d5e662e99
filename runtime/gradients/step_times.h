// How long the parts of a step took, from moments of the steady clock. Pure.
#pragma once

#include <cstdint>

#include "dlaunch/data_parallel.h"

namespace dlaunch::internal {

// Nanoseconds of the steady clock; 0: it has not happened.
struct StepMoments {
  std::int64_t begin = 0;
  std::int64_t first_gradient = 0;
  std::int64_t last_gradient = 0;
  std::int64_t first_launch = 0;
  std::int64_t last_end = 0;  // of the reductions
};

StepTimes times_of(const StepMoments& moments);

class AverageTimes {
 public:
  void add(const StepTimes& step);
  [[nodiscard]] std::uint64_t steps() const { return steps_; }
  [[nodiscard]] StepTimes average() const;  // all 0 without a step

 private:
  std::uint64_t steps_ = 0;
  StepTimes sum_;
};

}  // namespace dlaunch::internal
