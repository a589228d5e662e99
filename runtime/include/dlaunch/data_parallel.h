// Data-parallel training: each rank computes gradients from its part of the data, and the ranks average them
// while the rest of the gradients is still being computed. It knows no framework: any code that can report
// "gradient i is ready" can use it.
//
//   std::vector<dlaunch::Parameter> parameters;
//   for (Layer& layer : layers) parameters.push_back({layer.name, dlaunch::Tensor::of(layer.weights)});
//   dlaunch::GradientReducer reducer(parameters);     // all ranks have rank 0's parameters now
//   for (const Batch& batch : own_part) {
//     reducer.begin_step();
//     forward(batch);
//     for (std::size_t i = layers.size(); i-- > 0;) {
//       backward(layers[i], reducer.gradient(i));     // writes the gradient
//       reducer.mark_ready(i);                        // its reduction starts as soon as its bucket is full
//     }
//     reducer.finish_step();                          // all gradients are averaged
//     optimizer_step(layers, reducer);
//   }
//
// The gradients are stored in buckets: memory that one asynchronous all_reduce carries. Buckets are filled
// from the last parameter to the first, each with gradients of one dtype, and are reduced in one order on all
// ranks, whatever the order in which gradients become ready. After the first step they are filled anew in the
// order in which the gradients became ready on rank 0.
//
// On a GPU the gradients and everything that is done to them are in the order of the calling thread's current
// stream (stream.h): mark_ready() means that the gradient will be there in that order, and the averages are
// there in the order of the stream in which finish_step() was called, which does not wait for the GPU.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/export.h"
#include "dlaunch/process_group.h"
#include "dlaunch/reduce_op.h"
#include "dlaunch/tensor.h"
#include "dlaunch/work.h"

namespace dlaunch {
namespace internal {
class ReducerImpl;
}
inline namespace v1 {

// What is trained. Its gradient has the same dtype and shape, and is on the same device. All parameters of a
// reducer are on the CPU, or on one GPU.
struct Parameter {
  std::string name = {};  // for messages; may be empty
  Tensor value;           // the caller's memory; used by the constructor of the reducer only
};

// The gradients of one reduction, for a communication hook. Copies refer to the same memory, which is valid
// until the Work of the reduction has completed.
struct GradientBucket {
  std::size_t index = 0;                     // in the order of the reductions of a step, from 0
  bool is_last = false;                      // of the step
  Tensor buffer = {};                        // all gradients, one after another; one dimension
  std::vector<std::size_t> parameters = {};  // their numbers, in the order of their memory
  std::vector<Tensor> gradients = {};        // the parts of `buffer`, by `parameters`, with their shapes
  ProcessGroup group = {};
  std::optional<std::chrono::milliseconds> timeout = {};  // ReducerOptions::timeout
};

// What a hook has started. A Work alone converts to it.
struct BucketReduction {
  using Finish = std::function<void()>;

  BucketReduction(Work started, Finish then = {}) : work(std::move(started)), finish(std::move(then)) {}

  Work work;
  // If not empty: finish_step() calls it on its own thread after wait() on `work`, in the order of the
  // buckets. So on a GPU what it queues in the current stream comes after `work`. It may start no operation.
  Finish finish;
};

// Reduces a bucket instead of the reducer. Called once a bucket in each step that reduces, in the order of
// the buckets, on a thread that marks a gradient or finishes the step. It starts the communication (the same
// operations in the same order on all ranks, with async_op). `buffer` holds the result when the Work has
// completed and `finish` has returned. A hook divides by the number of ranks itself. The operations that it
// starts have deadlines; a Work of its own (WorkSource) that does not complete within the timeout is an
// error. A hook that throws aborts the group: the exception leaves the call that marked the gradient, or
// finish_step(), and the other ranks get a DistNetworkError with its text.
using CommHook = std::function<BucketReduction(const GradientBucket& bucket)>;

// What the reducer does without a hook if its op is avg: for hooks that reduce some buckets in this way.
DLAUNCH_EXPORT Work allreduce_hook(const GradientBucket& bucket);
// Hooks that send half of the bytes: the gradients are divided by the number of ranks, rounded to float16
// (greatest value 65504; what is larger becomes infinite) or bfloat16, added, and converted back. Buckets
// that are neither float32 nor float64 are reduced as by allreduce_hook. Each call of these functions makes a
// hook with memory of its own, which is for one reducer. It throws DistError for gradients on a GPU; those of
// dlaunch/torch/comm_hooks.h do not.
DLAUNCH_EXPORT CommHook fp16_compress_hook();
DLAUNCH_EXPORT CommHook bf16_compress_hook();

// All ranks give the same, except for timeout and comm_hook: hooks of all ranks must make the same calls.
struct ReducerOptions {
  // A bucket is complete when it has at least so many bytes, or is half full and the next gradient would take
  // it beyond that; 0: each gradient is a bucket. The first bucket of a dtype is short so that communication
  // starts early.
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  std::size_t bucket_cap_bytes = std::size_t{25} << 20;
  // avg: the mean over the ranks; sum. No other. Not used with a hook.
  ReduceOp op = ReduceOp::avg;
  // Gradients that no call has marked when the step finishes are no error: they count as unused. Costs a
  // small all_reduce a step, by which all ranks learn which gradients any rank has used; in a group that has
  // no backend for the CPU finish_step() waits for the GPU then. Buckets are not rebuilt.
  bool find_unused_parameters = false;
  // After the first step that reduces.
  bool rebuild_buckets = true;
  // The constructor gives all ranks the parameters of rank 0.
  bool broadcast_parameters = true;
  // For each reduction, from its start on; with a hook, for the Work of each bucket, from finish_step() on.
  // Absent: the group's.
  std::optional<std::chrono::milliseconds> timeout = {};
  CommHook comm_hook = {};
  // Names and values that the log of the construction shows, too.
  std::vector<std::pair<std::string, std::string>> log_fields = {};
};

// On the clock of the host. On a GPU the gradients have been queued at these moments, and a reduction ends
// when the host has seen its end.
struct StepTimes {
  std::chrono::nanoseconds forward{0};        // from begin_step to the first gradient
  std::chrono::nanoseconds backward{0};       // from the first gradient to the last one
  std::chrono::nanoseconds communication{0};  // from the start of the first reduction to the end of the last
  std::chrono::nanoseconds overlap{0};        // the part of `communication` before the last gradient
};

struct ReducerStatistics {
  std::uint64_t steps = 0;  // that were reduced, and whose reductions have ended
  StepTimes last = {};      // of them
  StepTimes average = {};
  std::size_t unused_parameters = 0;  // of the last one: on this rank
  std::size_t parameters = 0;
  std::size_t total_bytes = 0;   // of all gradients
  std::size_t shared_bytes = 0;  // of them: in memory that the ranks of this host reduce in place
  std::vector<std::size_t> bucket_bytes = {};  // in the order of the reductions
  bool rebuilt = false;                        // the buckets follow the order of arrival
};

// Threads: mark_ready and mark_unused may be called by several threads at once, for different parameters. The
// other calls are made by one thread, not while a gradient is being marked. Between begin_step and the return
// of finish_step the program makes no other collective on the group.
//
// Errors: a wrong call throws DistError and changes nothing (a gradient that is marked twice, a wrong shape,
// no step). A gradient that is missing at the end of a step, a hook that throws, and a failed reduction end
// the reducer: the group is broken, all ranks get an error, and every later call of the reducer throws the
// first error again. The errors name the parameters by number and name.
class DLAUNCH_EXPORT GradientReducer {
 public:
  // All ranks of the group (none: the default group) call it together. They compare their parameters (number,
  // dtypes, shapes) and options before anything else: if a rank differs from rank 0, all ranks throw
  // DistError that names the rank, the parameter and both shapes; the group stays usable. Allocates the
  // gradients, with zeros. DistError also if there are no parameters, they are on several devices, a dtype
  // does not allow the op, or this process is not a member of the group.
  explicit GradientReducer(std::vector<Parameter> parameters, ReducerOptions options = {},
                           ProcessGroup group = {});
  // Does not wait: memory that a running reduction uses is freed when it has ended.
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // The gradient's memory in its bucket, which lives as long as the reducer. The first begin_step() after the
  // first step that was reduced may rebuild the buckets: it keeps the values and ends all views; later ones
  // do not. So take it in each step, after begin_step(). It must not be written between its mark_ready() and
  // finish_step(). Any thread may call it while others mark gradients.
  [[nodiscard]] Tensor gradient(std::size_t parameter) const;
  // Keeps the memory of all gradients, as they lie now, as long as it exists: also when the buckets are
  // rebuilt, and after the reducer.
  [[nodiscard]] std::shared_ptr<const void> memory() const;
  void zero_gradients();

  // In its first call after the first step that was reduced it rebuilds the buckets, together with the other
  // ranks. With DebugLevel::detail the ranks compare their steps: if they differ, all ranks throw DistError.
  void begin_step();

  // The gradient has its value for this step. Starts the reduction of all buckets that are complete now.
  void mark_ready(std::size_t parameter);
  // The same for a gradient in the caller's memory: it is copied into the bucket, and finish_step() writes
  // the result back to it; in no_sync() that of the next step that reduces. Until then it must stay valid and
  // must not be used. Same dtype and number of
  // elements. A view that gradient() returned is not copied.
  void mark_ready(std::size_t parameter, const Tensor& gradient);

  // This step has no gradient for the parameter: its bucket need not wait until finish_step(). It counts as
  // zero, unless a step in no_sync() before has left a value; the result is in gradient(parameter). DistError
  // without find_unused_parameters.
  void mark_unused(std::size_t parameter);

  // Returns when all gradients are reduced: the same bits on all ranks. (On a GPU: in the order of the
  // stream. A reduction that fails there later is an error of the next step.) If gradients are missing (and
  // find_unused_parameters is off), it throws DistError that lists them, and aborts the group.
  void finish_step();

  // Whether any rank has used the parameter in the latest step that was reduced. If not, its gradient in the
  // bucket is zero, memory of the caller is as it was, and an optimizer should leave the parameter as it is.
  [[nodiscard]] bool used(std::size_t parameter) const;

  // While such a guard exists, steps that begin do not reduce: the caller adds up the gradients of several
  // steps in their memory, and the next step without a guard reduces the sums. All ranks do the same.
  class DLAUNCH_EXPORT NoSync {
   public:
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    friend class GradientReducer;
    explicit NoSync(std::shared_ptr<internal::ReducerImpl> reducer);
    std::shared_ptr<internal::ReducerImpl> reducer_;
  };
  [[nodiscard]] NoSync no_sync();

  // From the next step on; null: none. All ranks call it between the same steps.
  void register_comm_hook(CommHook hook);

  [[nodiscard]] ReducerStatistics statistics() const;

 private:
  std::shared_ptr<internal::ReducerImpl> impl_;
};

}  // namespace v1
}  // namespace dlaunch
