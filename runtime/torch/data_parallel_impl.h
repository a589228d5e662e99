// The state behind a DistributedDataParallel.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/torch/data_parallel.h"
#include "runtime/torch/autograd_graph.h"
#include "runtime/torch/guarded_model.h"
#include "runtime/torch/join_count.h"
#include "runtime/torch/module_tensors.h"

namespace dlaunch::torch::internal {

// Gives a GradientReducer what autograd computes: a step begins with forward() and ends with backward().
class DataParallelImpl : public GuardedModel, public std::enable_shared_from_this<DataParallelImpl> {
 public:
  DataParallelImpl(std::shared_ptr<::torch::nn::Module> module, DataParallelOptions options);

  // After construction, by std::make_shared.
  void attach_hooks();

  // As DataParallel's.
  void begin_forward();
  void end_forward(const std::vector<at::Tensor>& outputs);
  void register_comm_hook(CommHook hook) { reducer_->register_comm_hook(std::move(hook)); }
  [[nodiscard]] DataParallelStatistics statistics() const;
  // An argument of forward(): on the module's device, if device_ids names it.
  [[nodiscard]] at::Tensor on_device(const at::Tensor& argument) const;

  void begin_join(JoinOptions options) override;
  void finish_join(const std::function<void()>& step) override;
  void abandon_join() override;

  void enter_no_sync() override { ++no_sync_guards_; }
  void leave_no_sync() override { --no_sync_guards_; }

 private:
  [[nodiscard]] std::optional<std::string> problem() const;
  [[nodiscard]] std::optional<std::string> problem_of_devices() const;
  [[nodiscard]] at::Device device() const { return tensors_.trained.front().tensor.device(); }
  [[nodiscard]] ReducerOptions reducer_options() const;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> log_fields() const;

  void begin_step();
  void take_part_with_zeros();
  void take_results();
  // With a Join the reducer's means may be others than the program's.
  void scale_gradients();
  [[nodiscard]] int source_rank() const;  // of buffers
  void require_finished();
  // Keeps what `call` throws as the error of all later steps.
  template <class Call>
  void or_fail(const Call& call);
  [[nodiscard]] std::vector<std::size_t> unused_parameters(const std::vector<at::Tensor>& outputs) const;

  // Called by the hooks of autograd; both keep the first error.
  void on_gradient(std::size_t parameter);
  void on_end_of_backward(void (DataParallelImpl::*call)());
  void take_gradient(std::size_t parameter);
  // All gradients of a step are delivered after backward.
  [[nodiscard]] bool collects() const { return options_.delay_all_reduce || learns_graph(); }
  [[nodiscard]] bool learns_graph() const { return options_.static_graph && wanted_.empty(); }
  void deliver_collected();
  // Each returns whether the step has all gradients now.
  bool deliver(std::size_t parameter);
  bool deliver_unused(const std::vector<std::size_t>& parameters);
  bool arrive(std::size_t parameter);

  void finish_step();
  void take_result_of_unused(std::size_t parameter);

  [[nodiscard]] at::Tensor view_of_gradient(std::size_t parameter) const;
  // With gradient_as_bucket_view: whether the parameter's gradient is in its bucket.
  [[nodiscard]] bool is_in_bucket(std::size_t parameter) const;
  void follow_buckets();

  const std::shared_ptr<::torch::nn::Module> module_;
  const DataParallelOptions options_;
  const ProcessGroup group_;
  const ModuleTensors tensors_;
  std::vector<std::string> names_;  // of tensors_.trained
  std::optional<GradientReducer> reducer_;
  std::optional<GradientHooks> hooks_;
  std::vector<at::Tensor> views_;  // with gradient_as_bucket_view

  std::optional<JoinCount> join_;

  std::atomic<int> no_sync_guards_ = 0;
  bool reduces_ = false;  // the latest forward() did not run under a guard

  std::mutex mutex_;  // hooks may run on several threads
  std::exception_ptr failure_;
  bool step_open_ = false;
  bool accepts_ = false;  // gradients belong to the open step
  std::size_t arrived_ = 0;
  std::vector<char> has_arrived_;            // by parameter
  std::vector<std::size_t> pending_unused_;  // to be marked with the first gradient
  std::vector<std::size_t> unused_;          // were marked so in this step
  std::vector<char> used_before_;            // by parameter: backward() without reduction has added to it
  std::vector<at::Tensor> held_;             // by parameter: what the reducer writes its result to
  bool end_is_queued_ = false;               // deliver_collected() will run
  std::vector<std::size_t> fired_;           // by parameter: calls of its hook in this step
  std::vector<std::size_t> wanted_;          // static_graph: in each step. Empty: not yet known
};

template <class Call>
void DataParallelImpl::or_fail(const Call& call) {
  try {
    call();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
    std::rethrow_exception(failure_);
  }
}

}  // namespace dlaunch::torch::internal
