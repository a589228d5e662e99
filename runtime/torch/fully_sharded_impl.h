// The state behind a FullyShardedDataParallel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "dlaunch/torch/fully_sharded.h"
#include "runtime/gradients/unit_schedule.h"
#include "runtime/torch/autograd_graph.h"
#include "runtime/torch/guarded_model.h"
#include "runtime/torch/join_count.h"
#include "runtime/torch/module_tensors.h"
#include "runtime/torch/sharded_unit.h"

namespace dlaunch::torch::internal {

// Carries out what UnitSchedule decides, from within forward() and from autograd's hooks.
class FullyShardedImpl : public GuardedModel, public std::enable_shared_from_this<FullyShardedImpl> {
 public:
  FullyShardedImpl(std::shared_ptr<::torch::nn::Module> module, FullyShardedOptions options);

  // After construction, by std::make_shared: takes the parameters over.
  void divide();

  // The model whose forward() this thread is in; null: none.
  static FullyShardedImpl*& current();

  void begin_forward();
  void end_forward(const std::vector<at::Tensor>& outputs);
  void abandon_forward() noexcept;  // the module has thrown

  // None: the module is no unit of this model, or has no parameters of its own.
  [[nodiscard]] std::optional<std::size_t> unit_of(const ::torch::nn::Module& module) const;
  void begin_unit(std::size_t unit);
  void end_unit(std::size_t unit, const std::vector<at::Tensor>& outputs);

  void enter_no_sync() override { ++no_sync_guards_; }
  void leave_no_sync() override { --no_sync_guards_; }
  void begin_join(JoinOptions options) override;
  void finish_join(const std::function<void()>& step) override;
  void abandon_join() override;
  void require_no_join(const char* operation) const;

  void begin_full();
  void end_full() noexcept;

  [[nodiscard]] const std::vector<std::unique_ptr<ShardedUnit>>& units() const { return units_; }
  [[nodiscard]] const ShardedUnit& unit(std::size_t shard) const;
  double clip_grad_norm(double max_norm);
  [[nodiscard]] FullyShardedStatistics statistics() const;

 private:
  // Of the module.
  [[nodiscard]] at::Device device() const { return tensors_.trained.front().tensor.device(); }
  [[nodiscard]] std::optional<std::string> problem() const;
  [[nodiscard]] std::optional<std::string> problem_of_sharing() const;
  void require_same_units() const;
  // Of a parameter to train: 0 is what belongs to no unit of the options, i + 1 the i-th of them.
  [[nodiscard]] std::size_t place_of(const std::string& parameter) const;
  void attach_hooks();
  void make_units();

  [[noreturn]] void reject(const std::string& reason, const char* operation) const;
  // Keeps what `call` throws as the error of all later calls, and breaks the group.
  template <class Call>
  void or_fail(const Call& call);

  // The unit's parameters are there; those of the next one are on their way.
  void gather(std::size_t unit, std::optional<std::size_t> next);
  void release(std::size_t unit);
  // All ranks run the same units in the same order, or their parameters would be mixed.
  void compare_orders();
  void watch(std::size_t unit, const std::vector<at::Tensor>& outputs);

  // What the ranks that have data do next: with a Join, those that have none do it, too.
  enum class Shared : std::uint8_t { count, gather, reduce, compare_orders, clip, end_step };
  // Nothing if all ranks have data. `argument`: the unit, or the norm's bits.
  void announce(Shared what, std::int64_t argument = 0);
  void count_ranks(bool has_data);
  void start_gather(std::size_t unit);
  double limit_norm(double max_norm);
  // The next step of the others, or the next part of it. `is_due`: their optimizers make a step.
  void take_part(const std::function<void()>& step, bool& is_due);

  // Called by the hooks of autograd.
  void on_backward(std::size_t unit);
  void on_gradient(std::size_t parameter);
  void begin_backward();
  void end_backward();
  void reduce(std::size_t unit);
  [[nodiscard]] std::size_t gathered_bytes() const;
  void note_memory();

  const std::shared_ptr<::torch::nn::Module> module_;
  const FullyShardedOptions options_;
  const ProcessGroup group_;
  const ModuleTensors tensors_;
  std::vector<std::unique_ptr<ShardedUnit>> units_;
  bool has_rest_ = false;  // the first one is what belongs to no unit of the options
  std::unordered_map<const ::torch::nn::Module*, std::size_t> unit_of_module_;
  std::vector<std::size_t> unit_of_parameter_;  // by number in tensors_.trained
  std::optional<GradientHooks> hooks_;

  dlaunch::internal::UnitSchedule schedule_{0};
  std::exception_ptr failure_;
  bool records_ = false;      // the latest forward() computes gradients
  bool is_compared_ = false;  // the ranks' orders were
  bool in_backward_ = false;
  bool is_full_ = false;  // there is a FullParameters
  int no_sync_guards_ = 0;
  bool reduces_ = false;  // the latest forward() with gradients did not run under a NoSync
  std::optional<JoinCount> join_;
  std::vector<std::size_t> arrived_;      // by unit: gradients of this backward pass
  std::deque<std::size_t> in_reduction_;  // units
  FullyShardedStatistics statistics_;
};

template <class Call>
void FullyShardedImpl::or_fail(const Call& call) {
  if (failure_) std::rethrow_exception(failure_);
  try {
    call();
  } catch (const std::exception& error) {
    failure_ = std::current_exception();
    group_.abort(error.what());
    throw;
  }
}

}  // namespace dlaunch::torch::internal
