#include "dlaunch/torch/power_sgd.h"

#include <utility>

#include "runtime/torch/power_sgd_state.h"

namespace dlaunch::torch {
inline namespace v1 {

PowerSgd::PowerSgd(PowerSgdOptions options)
    : state_(std::make_shared<internal::PowerSgdState>(std::move(options))) {}

CommHook PowerSgd::hook() const {
  return [state = state_](const GradientBucket& bucket) { return state->reduce(bucket); };
}

PowerSgdStatistics PowerSgd::statistics() const { return state_->statistics(); }

}  // namespace v1
}  // namespace dlaunch::torch
