// torch.distributed.fsdp.FullyShardedDataParallel for modules of LibTorch's C++ frontend: data-parallel
// training in which each of N ranks keeps the N-th part of parameters, gradients and optimizer state.
//
//   struct NetImpl : torch::nn::Module {
//     at::Tensor forward(at::Tensor x) {
//       for (auto& block : blocks) x = dlaunch::torch::forward_unit(block, x);  // registered as "0", "1",
//       ... return head(x);
//     } ...
//   };
//   Net net;
//   dlaunch::torch::FullyShardedDataParallel model(net, {.units = {"0", "1", "2"}});
//   torch::optim::Adam optimizer(model.shards(), 1e-3);
//   for (auto& batch : own_part) {
//     optimizer.zero_grad();
//     torch::nll_loss(model(batch.data), batch.target).backward();
//     optimizer.step();
//   }
//
// The module is divided into units. The parameters of a unit are there while it computes: forward_unit()
// gathers them before the unit's forward() and frees them after it; backward() gathers them again, reduces
// their gradients as soon as they are complete, and frees both. While a unit computes, the parameters of the
// next one are gathered already (from the second step on: the first one shows their order). What belongs to
// no unit is there from the start of forward() to the end of backward().
//
// Costs, beside DistributedDataParallel: one more communication of all parameters a step.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/export.h"
#include "dlaunch/process_group.h"
#include "dlaunch/torch/join.h"
#include "dlaunch/torch/tensors_in.h"

namespace dlaunch::torch {
namespace internal {
class FullyShardedImpl;
}
inline namespace v1 {

// All ranks give the same.
struct FullyShardedOptions {
  ProcessGroup process_group = {};  // none: the default group
  // Names (named_modules()) of the modules that are units. A unit may contain others. None: the whole module
  // is one.
  std::vector<std::string> units = {};
  std::optional<std::chrono::milliseconds> timeout = {};  // of each communication; absent: the group's
};

// In bytes: what this rank has.
struct FullyShardedStatistics {
  std::uint64_t steps = 0;         // backward passes that have finished
  std::uint64_t gathers = 0;       // of units
  std::uint64_t prefetched = 0;    // of them: begun before the unit was needed
  std::size_t whole_bytes = 0;     // of the parameters of the whole module
  std::size_t shard_bytes = 0;     // of this rank's part of them, which is always there
  std::size_t gradient_bytes = 0;  // of this rank's part of the gradients
  // Of units whose parameters are there now, and of gradients that are being reduced or that NoSync keeps.
  std::size_t gathered_bytes = 0;
  std::size_t peak_gathered_bytes = 0;
};

// What does not depend on the module's type.
//
// The module's parameters belong to the model: outside of forward(), backward() and FullParameters those that
// are trained have no elements, and after the model's end they stay so. Parameters that require no gradient,
// and buffers, are whole on each rank.
//
// Threads: one thread makes all calls. A module is on the CPU or on one CUDA device; its parameters are
// gathered and its gradients reduced there, in the order of LibTorch's current streams.
//
// Errors: DistError and its kinds, also from forward() and backward(). After a communication that failed, or
// an error within forward() or backward() of this class, the group is broken on all ranks, and later calls
// throw the first error again.
class DLAUNCH_EXPORT ShardedDataParallel {
 public:
  // All ranks of the group call it together; the ranks take parameters and buffers of rank 0. DistError on
  // all ranks, and the group stays usable: if names, dtypes or shapes differ between the ranks (it names
  // rank, tensor and both forms), if the units differ, if a unit is no module of this one, if parameters of
  // one unit have several dtypes, if two units share a parameter, or if nothing is to be trained.
  ShardedDataParallel(std::shared_ptr<::torch::nn::Module> module, FullyShardedOptions options);
  virtual ~ShardedDataParallel();
  ShardedDataParallel(const ShardedDataParallel&) = delete;
  ShardedDataParallel& operator=(const ShardedDataParallel&) = delete;

  // What an optimizer gets: of each unit this rank's part of its parameters, as one tensor of one dimension,
  // whose gradient is the mean over the ranks after backward(); those of several backward() add up. For
  // optimizers that treat each element alone (SGD, Adam, AdamW, RMSprop, Adagrad): the result is that of a
  // whole optimizer. The last elements may be padding, zeros with the gradient zero. The first tensor is that
  // of what belongs to no unit ("" in unit_names()), if there is such; then the units as in the options,
  // those without parameters left out.
  [[nodiscard]] std::vector<at::Tensor> shards() const;
  [[nodiscard]] std::vector<std::string> unit_names() const;  // by shard
  void zero_grad();                                           // also of what NoSync has added up

  // The gradients that add up are whole on each rank meanwhile, not divided. Parameters are gathered as ever.
  [[nodiscard]] NoSync no_sync();

  // finish() needs the step of the optimizer: each rank has a part of the parameters, also of those that the
  // others train on. It is made once for each backward() of the others that reduces, and the gradients are
  // dropped after it. (Ranks that make one step for several backward() use NoSync for all but the last.)
  // Meanwhile there are no FullParameters, and no gather().
  [[nodiscard]] Join join(JoinOptions options = {});

  // Scales the gradients so that their norm (L2, over all parameters and ranks) is `max_norm` at most.
  // Returns the norm before. A collective.
  double clip_grad_norm(double max_norm);

  // For the state of an optimizer, which has a tensor of the shard's size: gather() returns the whole one of
  // all ranks, without padding, in the order of the unit's parameters (a collective); part_of() this rank's
  // part of such a one, also if other numbers of ranks have made it.
  [[nodiscard]] at::Tensor gather(std::size_t shard, const at::Tensor& part) const;
  [[nodiscard]] at::Tensor part_of(std::size_t shard, const at::Tensor& whole) const;

  // While it exists, the module has all its parameters: to save it, to look at them, or to change them (on
  // all ranks alike: each rank keeps its own part of them in the end). forward() without gradients is
  // allowed. All ranks make it together.
  class DLAUNCH_EXPORT FullParameters {
   public:
    ~FullParameters();
    FullParameters(const FullParameters&) = delete;
    FullParameters& operator=(const FullParameters&) = delete;

   private:
    friend class ShardedDataParallel;
    explicit FullParameters(std::shared_ptr<internal::FullyShardedImpl> model);
    std::shared_ptr<internal::FullyShardedImpl> model_;
  };
  [[nodiscard]] FullParameters full_parameters();

  void train(bool on = true) { base_->train(on); }
  void eval() { base_->eval(); }
  [[nodiscard]] FullyShardedStatistics statistics() const;

 protected:
  // Around the module's forward().
  class DLAUNCH_EXPORT Pass {
   public:
    explicit Pass(const ShardedDataParallel& model);
    ~Pass();
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    void finish(const std::vector<at::Tensor>& outputs);

   private:
    std::shared_ptr<internal::FullyShardedImpl> model_;  // null: finished
  };

 private:
  std::shared_ptr<::torch::nn::Module> base_;
  std::shared_ptr<internal::FullyShardedImpl> impl_;
};

// `Module`: as of DistributedDataParallel.
template <class Module>
class FullyShardedDataParallel : public ShardedDataParallel {
 public:
  explicit FullyShardedDataParallel(std::shared_ptr<Module> module, FullyShardedOptions options = {})
      : ShardedDataParallel(module, std::move(options)), module_(std::move(module)) {}
  explicit FullyShardedDataParallel(const ::torch::nn::ModuleHolder<Module>& module,
                                    FullyShardedOptions options = {})
      : FullyShardedDataParallel(module.ptr(), std::move(options)) {}

  // The module's forward(). All ranks call it together, also without gradients, and run the same units in the
  // same order.
  template <class... Arguments>
  auto forward(Arguments&&... arguments) {
    Pass pass(*this);
    auto result = module_->forward(std::forward<Arguments>(arguments)...);
    std::vector<at::Tensor> outputs;
    tensors_in(result, outputs);
    pass.finish(outputs);
    return result;
  }
  template <class... Arguments>
  auto operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }

  [[nodiscard]] const std::shared_ptr<Module>& module() const { return module_; }
  Module* operator->() const { return module_.get(); }

 private:
  std::shared_ptr<Module> module_;
};

// Around the forward() of a unit: for units that forward_unit() cannot call.
class DLAUNCH_EXPORT UnitPass {
 public:
  explicit UnitPass(const ::torch::nn::Module& unit);
  ~UnitPass();
  UnitPass(const UnitPass&) = delete;
  UnitPass& operator=(const UnitPass&) = delete;
  void finish(const std::vector<at::Tensor>& outputs);  // all that forward() returned

 private:
  std::shared_ptr<internal::FullyShardedImpl> model_;  // null: it is no unit, or finished
  std::size_t unit_ = 0;
};

// unit->forward(arguments...), within the forward() of a module that contains it. If a
// FullyShardedDataParallel has it as a unit, its parameters are there meanwhile; otherwise it is nothing
// else. `unit`: a holder (TORCH_MODULE), std::shared_ptr or pointer.
template <class Pointer, class... Arguments>
auto forward_unit(Pointer& unit, Arguments&&... arguments) {
  UnitPass pass(*unit);
  auto result = unit->forward(std::forward<Arguments>(arguments)...);
  std::vector<at::Tensor> outputs;
  tensors_in(result, outputs);
  pass.finish(outputs);
  return result;
}

}  // namespace v1
}  // namespace dlaunch::torch
