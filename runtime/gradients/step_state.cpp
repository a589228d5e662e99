#include "runtime/gradients/step_state.h"

#include <algorithm>

namespace dlaunch::internal {

StepState::StepState(std::size_t parameters, std::span<const BucketPlan> buckets)
    : gradients_(parameters), bucket_of_(parameters) {
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    sizes_.push_back(buckets[bucket].parameters.size());
    for (const std::size_t parameter : buckets[bucket].parameters) bucket_of_[parameter] = bucket;
  }
  order_.reserve(parameters);
  begin();
}

void StepState::begin() {
  std::ranges::fill(gradients_, Gradient::expected);
  absent_ = sizes_;
  order_.clear();
  next_ = 0;
}

bool StepState::claim(std::size_t parameter) {
  if (gradients_[parameter] != Gradient::expected) return false;
  gradients_[parameter] = Gradient::claimed;
  return true;
}

void StepState::arrive(std::size_t parameter) {
  gradients_[parameter] = Gradient::arrived;
  order_.push_back(parameter);
  --absent_[bucket_of_[parameter]];
}

std::optional<std::size_t> StepState::next_launch() {
  if (next_ == absent_.size() || absent_[next_] > 0) return std::nullopt;
  return next_++;
}

std::vector<std::size_t> StepState::missing() const {
  std::vector<std::size_t> missing;
  for (std::size_t parameter = 0; parameter < gradients_.size(); ++parameter)
    if (gradients_[parameter] == Gradient::expected) missing.push_back(parameter);
  return missing;
}

}  // namespace dlaunch::internal
