// An optimizer of parameters that live in several workers: torch.distributed.optim.DistributedOptimizer.
//
//   dlaunch::torch::DistributedOptimizer<torch::optim::SGD> optimizer(module.remote_parameters(),
//                                                                     torch::optim::SGDOptions(0.05));
//   dlaunch::torch::dist_autograd::backward(context.id(), {loss});
//   optimizer.step(context.id());
//
// Each owner has an optimizer of its own for its parameters, with the gradients of the context: all make
// their steps at once. Both workers run programs in which the same DistributedOptimizer is made.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "dlaunch/export.h"
#include "dlaunch/future.h"
#include "dlaunch/rref.h"
#include "dlaunch/torch/dist_autograd.h"
#include "dlaunch/torch/remote_module.h"
#include "dlaunch/torch/rpc_tensors.h"

namespace dlaunch::torch {
inline namespace v1 {

namespace rpc_detail {

// An owner's part.
class DLAUNCH_EXPORT LocalOptimizer {
 public:
  explicit LocalOptimizer(std::unique_ptr<::torch::optim::Optimizer> optimizer);
  // With the gradients of the context, which replace .grad while it runs. Parameters without one stay as they
  // are. One at a time, over all optimizers of this worker.
  void step(std::int64_t context_id);

 private:
  const std::unique_ptr<::torch::optim::Optimizer> optimizer_;
};

DLAUNCH_EXPORT std::vector<at::Tensor> tensors_of(const std::vector<rpc::RRef<at::Tensor>>& references);
DLAUNCH_EXPORT std::string bytes_of_options(const ::torch::optim::OptimizerOptions& options);
DLAUNCH_EXPORT void read_options(const std::string& bytes, ::torch::optim::OptimizerOptions& options);
DLAUNCH_EXPORT std::map<int, std::vector<rpc::RRef<at::Tensor>>> by_owner(
    const std::vector<rpc::RRef<at::Tensor>>& parameters);
DLAUNCH_EXPORT void step_all(const std::vector<rpc::RRef<LocalOptimizer>>& optimizers,
                             std::int64_t context_id);

template <class Optimizer, class Options>
struct MakeOptimizer {
  static std::shared_ptr<LocalOptimizer> call(const std::vector<rpc::RRef<at::Tensor>>& parameters,
                                              const std::string& bytes) {
    // Those without a default have a learning rate.
    Options options = [] {
      if constexpr (std::is_default_constructible_v<Options>) {
        return Options();
      } else {
        return Options(0.);
      }
    }();
    read_options(bytes, options);
    return std::make_shared<LocalOptimizer>(
        std::make_unique<Optimizer>(tensors_of(parameters), std::move(options)));
  }
};

}  // namespace rpc_detail

template <class Optimizer>
class DistributedOptimizer {
 public:
  // `options`: the optimizer's. The state of each parameter is at its owner. DistError if there are no
  // parameters.
  template <class Options>
  DistributedOptimizer(const std::vector<rpc::RRef<at::Tensor>>& parameters, const Options& options) {
    for (const auto& [owner, own] : rpc_detail::by_owner(parameters)) {
      optimizers_.push_back(rpc::remote(
          owner, rpc_detail::Registered<rpc_detail::MakeOptimizer<Optimizer, Options>>::function(), own,
          rpc_detail::bytes_of_options(options)));
    }
  }

  // A step of all owners with the gradients of the context. Returns when all have made it; throws DistError
  // if this worker does not know the context, and the first error of an owner, when all have ended. Steps of
  // other contexts and other workers are made one after the other at each owner, in no order over the owners.
  void step(std::int64_t context_id) const { rpc_detail::step_all(optimizers_, context_id); }

 private:
  std::vector<rpc::RRef<rpc_detail::LocalOptimizer>> optimizers_;
};

}  // namespace v1
}  // namespace dlaunch::torch
