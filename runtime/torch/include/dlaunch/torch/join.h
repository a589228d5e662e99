// Guards of data-parallel models: steps without communication, and ranks with different numbers of batches.
#pragma once

#include <functional>
#include <memory>

#include "dlaunch/export.h"

namespace dlaunch::torch {
namespace internal {
class GuardedModel;
}
inline namespace v1 {

struct JoinOptions {
  // A gradient is the sum over the ranks that still have data, divided by the number of all ranks; false: by
  // their number.
  bool divide_by_initial_world_size = true;
  // If one rank has no more data, all ranks end: the next forward() of the others, and finish(), throw
  // DistError.
  bool throw_on_early_termination = false;
};

// While such a guard exists, forward() and backward() reduce nothing: gradients add up on each rank, until
// the first backward() after a forward() without a guard. All ranks do the same.
class DLAUNCH_EXPORT NoSync {
 public:
  explicit NoSync(std::shared_ptr<internal::GuardedModel> model);  // the models' no_sync() is for programs
  ~NoSync();
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  std::shared_ptr<internal::GuardedModel> model_;
};

// For ranks that have different numbers of batches:
//
//   dlaunch::torch::Join join = model.join();
//   for (auto& batch : own_part) train(batch);
//   join.finish([&] { optimizer.step(); });
//
// While a rank still trains, the ranks that have finished take part in its communication, with gradients of
// zeros. Costs a small all_reduce a step. All ranks make and finish the guard together, and make no other
// collective of the group in between.
class DLAUNCH_EXPORT Join {
 public:
  Join(std::shared_ptr<internal::GuardedModel> model, JoinOptions options);  // the models' join()
  ~Join();  // without finish(): aborts the group, in which the others would wait for this rank
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;

  // This rank has no more data. Returns when no rank has. `step`: what this rank's part in each remaining
  // step of the others is, after the gradients are there; they are the same as on the other ranks. None:
  // nothing.
  void finish(const std::function<void()>& step = {});

 private:
  std::shared_ptr<internal::GuardedModel> model_;  // null: finished
};

}  // namespace v1
}  // namespace dlaunch::torch
