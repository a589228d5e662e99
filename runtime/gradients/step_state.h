// One step of training as a state machine: which gradients have arrived, and which bucket is reduced next.
//
// Buckets are launched strictly in their order, whatever the order of arrival: so all ranks make the same
// calls. Not synchronised; pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/gradients/bucket_assignment.h"

namespace dlaunch::internal {

class StepState {
 public:
  // `buckets` hold each of the parameters 0 to parameters - 1 once.
  StepState(std::size_t parameters, std::span<const BucketPlan> buckets);

  // All gradients are expected again.
  void begin();

  // The parameter's gradient comes from this caller. False if it has come in this step already.
  // REQUIRES: parameter < the number of parameters; so below.
  bool claim(std::size_t parameter);

  // The gradient is in its bucket. REQUIRES: claim() was true, and arrive() was not called since.
  void arrive(std::size_t parameter);

  // The bucket to reduce now; none: its gradients have not all arrived, or all buckets were launched. Each
  // bucket is returned once in a step.
  std::optional<std::size_t> next_launch();

  [[nodiscard]] bool all_arrived() const { return order_.size() == gradients_.size(); }
  // Those that nobody has claimed in this step, ascending.
  [[nodiscard]] std::vector<std::size_t> missing() const;
  // Those that have arrived in this step, in that order.
  [[nodiscard]] std::span<const std::size_t> arrival_order() const { return order_; }

 private:
  enum class Gradient : std::uint8_t { expected, claimed, arrived };

  std::vector<Gradient> gradients_;
  std::vector<std::size_t> bucket_of_;
  std::vector<std::size_t> sizes_;   // of the buckets, in gradients
  std::vector<std::size_t> absent_;  // of each bucket: gradients that have not arrived
  std::vector<std::size_t> order_;
  std::size_t next_ = 0;  // bucket to launch
};

}  // namespace dlaunch::internal
