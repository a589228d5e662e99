// torch.nn.parallel.DistributedDataParallel for modules of LibTorch's C++ frontend.
//
//   Net net;                                                          // TORCH_MODULE(Net)
//   dlaunch::torch::DistributedDataParallel model(net);               // all ranks have rank 0's parameters
//   now torch::optim::SGD optimizer(model.parameters(), 0.01); for (auto& batch : own_part) {
//     optimizer.zero_grad();
//     at::Tensor loss = torch::nll_loss(model(batch.data), batch.target);
//     loss.backward();                                                // the gradients are averaged meanwhile
//     optimizer.step();
//   }
//   torch::save(model.module(), "model.pt");                          // no prefix before the names
//
// Each rank has one replica of the module, on the CPU, and an optimizer of its own. backward() returns when
// the gradients of all ranks are averaged: the same bits on all ranks, so that the replicas stay equal. The
// reductions run while backward() computes the remaining gradients (dlaunch/data_parallel.h describes the
// buckets).
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "dlaunch/data_parallel.h"
#include "dlaunch/export.h"
#include "dlaunch/process_group.h"
#include "dlaunch/torch/join.h"
#include "dlaunch/torch/tensors_in.h"

namespace dlaunch::torch {
namespace internal {
class DataParallelImpl;
}
inline namespace v1 {

// All ranks give the same. The names and defaults are PyTorch's.
struct DataParallelOptions {
  ProcessGroup process_group = {};  // none: the default group
  // As ReducerOptions' first_bucket_bytes and bucket_cap_bytes (this one in MiB).
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  std::size_t bucket_cap_mb = 25;
  // Parameters that do not take part in the outputs of a forward(), as autograd's graph shows, are not waited
  // for. Costs a walk through the graph and a small all_reduce a step. A parameter that no rank has used
  // keeps its gradient.
  bool find_unused_parameters = false;
  // The graph is the same in every step: the first step finds which parameters are unused, and how often
  // autograd computes a part of each gradient; it reduces after backward.
  bool static_graph = false;
  // In training, each forward() that reduces takes rank 0's buffers (running means and the like).
  bool broadcast_buffers = true;
  // Gradients are views of the buckets, which saves two copies and the memory. The program must not replace
  // the memory of a gradient (detach_(), set_data()); after the first step their memory moves once.
  bool gradient_as_bucket_view = false;
  // Reductions begin when the last gradient of a step is there: backward computes undisturbed.
  bool delay_all_reduce = false;
  // For a module on a GPU, as PyTorch's; both name its device. With device_ids, tensors among the arguments
  // of forward() are copied there if they are elsewhere.
  std::vector<int> device_ids = {};
  std::optional<int> output_device = {};
  // Names (named_parameters(), named_buffers()) of what each rank keeps for itself.
  std::set<std::string> ignored = {};
  std::optional<std::chrono::milliseconds> timeout = {};  // ReducerOptions::timeout
};

struct DataParallelStatistics {
  std::string module_name = {};
  int rank = 0;
  int world_size = 0;
  std::string backend = {};
  std::vector<std::string> parameter_names = {};  // of the parameters that are reduced, by number
  std::size_t buffers = 0;                        // that rank 0 gives in each step
  ReducerStatistics reducer = {};
};

// What does not depend on the module's type.
//
// Threads: one thread makes all calls; backward() may run hooks on threads of autograd.
//
// Errors: DistError and its kinds, also from forward() and backward(). As GradientReducer's: after a missing
// gradient, a hook that throws, or a failed reduction the group is broken on all ranks, and later steps throw
// the first error again. If a parameter has received no gradient in a backward(), the next forward() throws,
// with its number and name: a loss may be computed in parts, by several backward().
class DLAUNCH_EXPORT DataParallel {
 public:
  // All ranks of the group call it together. They compare names, dtypes, shapes and strides of parameters and
  // buffers first: if a rank differs from rank 0, all throw DistError that names the rank, the tensor and
  // both forms, and the group stays usable. DistError on all ranks, too, if no parameter requires a gradient
  // or they are on several devices. Parameters that are shared count once, under the first of their names.
  //
  // On a GPU everything is in the order of LibTorch's current streams, as its own DistributedDataParallel;
  // forward() and backward() do not wait for the GPU. It takes a libdlaunch_torch that was built with a
  // LibTorch that has CUDA.
  DataParallel(std::shared_ptr<::torch::nn::Module> module, DataParallelOptions options);
  virtual ~DataParallel();  // the module's gradients stay as they are
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // The module's own.
  [[nodiscard]] std::vector<at::Tensor> parameters() const { return base_->parameters(); }
  void train(bool on = true) { base_->train(on); }
  void eval() { base_->eval(); }
  void zero_grad() { base_->zero_grad(); }

  using NoSync = torch::NoSync;
  [[nodiscard]] NoSync no_sync();

  // At the end all ranks take parameters and buffers of the lowest rank that trained longest, but not its
  // optimizer, unless finish() gets the optimizer's step.
  using Join = torch::Join;
  [[nodiscard]] Join join(JoinOptions options = {});

  // GradientReducer's; tensor_of(bucket.buffer) is the bucket as a tensor of LibTorch.
  void register_comm_hook(CommHook hook);

  [[nodiscard]] DataParallelStatistics statistics() const;

 protected:
  // Around the module's forward().
  void begin_forward();
  void end_forward(const std::vector<at::Tensor>& outputs);
  [[nodiscard]] at::Tensor on_device(const at::Tensor& argument) const;

 private:
  std::shared_ptr<::torch::nn::Module> base_;
  std::shared_ptr<internal::DataParallelImpl> impl_;
};

// `Module`: a class derived from torch::nn::Module with a forward() whose result tensors_in() can search. It
// is the argument that decides the type: DistributedDataParallel model(net), for a std::shared_ptr or a
// holder (TORCH_MODULE).
template <class Module>
class DistributedDataParallel : public DataParallel {
 public:
  explicit DistributedDataParallel(std::shared_ptr<Module> module, DataParallelOptions options = {})
      : DataParallel(module, std::move(options)), module_(std::move(module)) {}
  explicit DistributedDataParallel(const ::torch::nn::ModuleHolder<Module>& module,
                                   DataParallelOptions options = {})
      : DistributedDataParallel(module.ptr(), std::move(options)) {}

  // The module's forward(). Without gradients (torch::NoGradGuard) it is nothing else, and ranks may call it
  // alone.
  template <class... Arguments>
  auto forward(Arguments&&... arguments) {
    begin_forward();
    auto result = module_->forward(placed(std::forward<Arguments>(arguments))...);
    std::vector<at::Tensor> outputs;
    tensors_in(result, outputs);
    end_forward(outputs);
    return result;
  }
  template <class... Arguments>
  auto operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }

  [[nodiscard]] const std::shared_ptr<Module>& module() const { return module_; }
  Module* operator->() const { return module_.get(); }

 private:
  template <class Argument>
  decltype(auto) placed(Argument&& argument) const {
    if constexpr (std::is_same_v<std::remove_cvref_t<Argument>, at::Tensor>) {
      return on_device(argument);
    } else {
      return std::forward<Argument>(argument);
    }
  }

  std::shared_ptr<Module> module_;
};

}  // namespace v1
}  // namespace dlaunch::torch
