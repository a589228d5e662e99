// The state behind a GradientReducer.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dlaunch/data_parallel.h"
#include "runtime/data_parallel/bucket_memory.h"
#include "runtime/data_parallel/gradient_device.h"
#include "runtime/gradients/step_state.h"
#include "runtime/gradients/step_times.h"

namespace dlaunch::internal {

// Carries out what StepState decides: copies gradients into buckets and starts and awaits the reductions. One
// thread at a time starts reductions, without a lock held: so a hook may take its time, and other threads go
// on marking gradients.
class ReducerImpl {
 public:
  ReducerImpl(std::vector<Parameter> parameters, ReducerOptions options, ProcessGroup group);

  // As GradientReducer's.
  [[nodiscard]] Tensor gradient(std::size_t parameter) const;
  [[nodiscard]] std::shared_ptr<const void> memory() const { return memory_; }
  void zero_gradients();
  void begin_step();
  void mark_ready(std::size_t parameter, const Tensor* gradient);
  void mark_unused(std::size_t parameter);
  void finish_step();
  [[nodiscard]] bool used(std::size_t parameter) const;
  void register_comm_hook(CommHook hook);
  [[nodiscard]] ReducerStatistics statistics();

  void enter_no_sync() { ++no_sync_guards_; }
  void leave_no_sync() { --no_sync_guards_; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  // The reductions of a step, which count themselves.
  struct Reductions {
    std::atomic<std::size_t> running = 0;
    std::atomic<std::int64_t> last_end = 0;  // of those that have ended
  };
  struct Unmeasured {
    StepMoments moments;
    std::shared_ptr<const Reductions> reductions;
  };

  // Buckets for the gradients in this order, in memory of their own.
  void lay_out(std::span<const std::size_t> order);
  void rebuild();

  // The parts of mark_ready and mark_unused, with the mutex held.
  void require_markable(const char* call, std::size_t parameter) const;
  void claim(const char* call, std::size_t parameter);  // throws if it is marked already
  void arrive(Lock& lock, std::size_t parameter);
  void set_own(std::size_t parameter, const Tensor* gradient);  // null: it has no memory of the caller
  // The part of this rank in a gradient that this step does not have.
  void contribute_without_gradient(std::size_t parameter);

  void launch_complete_buckets(Lock& lock);
  BucketReduction launch(std::size_t bucket);
  void await_reductions();
  void await(std::size_t bucket);
  void reduce_used();
  void take_results();
  void measure_ended_steps();

  void require_index(const char* call, std::size_t parameter) const;
  void require_memory_like(std::size_t parameter, const Tensor& gradient) const;
  void require_intact() const;  // throws the first failure again
  [[noreturn]] void reject(const char* call, const std::string& reason) const;
  // Ends the reducer: from now on every call throws `error`.
  [[noreturn]] void fail(std::exception_ptr error);
  // The same, and the other ranks learn the reason.
  [[noreturn]] void give_up(const std::exception_ptr& error);
  [[noreturn]] void fail_for_missing(std::span<const std::size_t> missing);
  [[nodiscard]] std::string marked_twice(std::size_t parameter) const;
  // "gradients of parameters 4 (b.weight), 3 (b.bias) (bucket 1 of 3)"
  [[nodiscard]] std::string bucket_text(std::size_t bucket) const;
  void log_construction() const;
  void log_rebuilt() const;
  void log_times() const;

  const ProcessGroup group_;
  const ReducerOptions options_;
  CommHook hook_;
  std::vector<std::string> names_;
  std::vector<Tensor> like_;  // without memory that is used: dtype, shape and device of each parameter
  std::vector<GradientSize> sizes_;

  std::unique_ptr<GradientDevice> device_;
  std::shared_ptr<BucketMemory> memory_;  // shared with running reductions
  std::size_t shared_bytes_ = 0;          // of it
  std::vector<GradientBucket> buckets_;   // for the hook

  mutable std::mutex mutex_;
  std::condition_variable launched_;  // launching_ has become false
  // protected by mutex_ in a step
  StepState state_;
  bool in_step_ = false;
  bool reduces_ = false;  // the step
  bool launching_ = false;
  StepMoments moments_;
  std::vector<BucketReduction> started_;  // by bucket; its slot belongs to the thread that launches
  std::vector<Tensor> own_;  // by parameter: memory of the caller, for this step or left by no_sync
  std::vector<char> left_;   // by parameter: steps in no_sync have left a value
  std::vector<std::uint8_t> used_here_;  // by parameter: 1 or 0
  std::exception_ptr failure_;

  std::shared_ptr<Reductions> reductions_;  // of the step
  std::deque<Unmeasured> unmeasured_;       // steps whose reductions may still run on the device
  std::vector<std::uint8_t> used_;          // by parameter: 1 if any rank has used it, or 0
  std::int64_t step_ = 0;
  std::atomic<int> no_sync_guards_ = 0;
  std::vector<std::size_t> arrival_order_;  // to rebuild by; empty: not yet known, or done
  bool may_rebuild_ = false;                // has not happened
  bool rebuilt_ = false;
  StepTimes last_times_;
  AverageTimes times_;
  std::size_t unused_here_ = 0;
};

}  // namespace dlaunch::internal
