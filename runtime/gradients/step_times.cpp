#include "runtime/gradients/step_times.h"

#include <algorithm>
#include <chrono>

namespace dlaunch::internal {

namespace {

// 0 if one of them has not happened, or if the end comes first.
std::chrono::nanoseconds between(std::int64_t begin, std::int64_t end) {
  return std::chrono::nanoseconds(begin > 0 && end > begin ? end - begin : 0);
}

}  // namespace

StepTimes times_of(const StepMoments& moments) {
  return {.forward = between(moments.begin, moments.first_gradient),
          .backward = between(moments.first_gradient, moments.last_gradient),
          .communication = between(moments.first_launch, moments.last_end),
          .overlap = between(moments.first_launch, std::min(moments.last_gradient, moments.last_end))};
}

void AverageTimes::add(const StepTimes& step) {
  ++steps_;
  sum_.forward += step.forward;
  sum_.backward += step.backward;
  sum_.communication += step.communication;
  sum_.overlap += step.overlap;
}

StepTimes AverageTimes::average() const {
  if (steps_ == 0) return {};
  const auto count = static_cast<std::int64_t>(steps_);
  return {.forward = sum_.forward / count,
          .backward = sum_.backward / count,
          .communication = sum_.communication / count,
          .overlap = sum_.overlap / count};
}

}  // namespace dlaunch::internal
