// An optimizer whose state is shared out among the ranks: torch.distributed.optim.ZeroRedundancyOptimizer.
//
//   dlaunch::torch::DistributedDataParallel model(net);
//   dlaunch::torch::ZeroRedundancyOptimizer<torch::optim::Adam> optimizer(model.parameters(),
//                                                                         torch::optim::AdamOptions(1e-3));
//   loss.backward();
//   optimizer.step();
//
// no_sync() is the model's. With a Join, a rank that has finished makes its part of the others' steps:
//
//   join.finish([&] { optimizer.step(); });
//
// Each parameter belongs to one rank, whose optimizer has its state and makes its step; then the rank gives
// the new values to the others. The parameters are those of an optimizer that makes all steps on each rank;
// its state takes about the N-th part of the memory on N ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dlaunch/export.h"
#include "dlaunch/process_group.h"

namespace dlaunch::torch {
inline namespace v1 {

// Which of `ranks` ranks each item belongs to: the largest item first, each to the rank that has least so
// far.
DLAUNCH_EXPORT std::vector<int> share_out(std::span<const std::size_t> sizes, int ranks);

// Parameters of which each belongs to a rank. Used by one thread.
class DLAUNCH_EXPORT SharedOutParameters {
 public:
  // All ranks give the same parameters in the same order, which have the same values on all ranks. DistError
  // if one is not a CPU tensor without gaps, or this process is not a member of the group (none: the default
  // group).
  SharedOutParameters(std::vector<at::Tensor> parameters, ProcessGroup group,
                      std::optional<std::chrono::milliseconds> timeout);

  [[nodiscard]] const std::vector<at::Tensor>& all() const { return parameters_; }
  [[nodiscard]] std::vector<at::Tensor> own() const;  // this rank's
  // The owner's values, on all ranks. A collective.
  void exchange() const;

 private:
  std::vector<at::Tensor> parameters_;
  std::vector<int> owners_;  // by parameter: a rank in the group
  ProcessGroup group_;
  std::optional<std::chrono::milliseconds> timeout_;
};

template <class Optimizer>
class ZeroRedundancyOptimizer {
 public:
  // The arguments of SharedOutParameters; `options`: the optimizer's.
  template <class Options>
  ZeroRedundancyOptimizer(std::vector<at::Tensor> parameters, const Options& options, ProcessGroup group = {},
                          std::optional<std::chrono::milliseconds> timeout = {})
      : parameters_(std::move(parameters), std::move(group), timeout) {
    if (std::vector<at::Tensor> own = parameters_.own(); !own.empty())
      local_.emplace(std::move(own), options);
  }

  // All ranks of the group call it together, when all have the same gradients.
  void step() {
    if (local_) local_->step();
    parameters_.exchange();
  }
  void zero_grad() {
    for (const at::Tensor& parameter : parameters_.all()) {
      at::Tensor& gradient = parameter.mutable_grad();
      if (gradient.defined()) gradient.detach_().zero_();
    }
  }

  // This rank's optimizer, of this rank's parameters: for its options and its state. Null: it has none.
  [[nodiscard]] Optimizer* local() { return local_ ? &*local_ : nullptr; }
  [[nodiscard]] const SharedOutParameters& parameters() const { return parameters_; }

 private:
  SharedOutParameters parameters_;
  std::optional<Optimizer> local_;
};

}  // namespace v1
}  // namespace dlaunch::torch
