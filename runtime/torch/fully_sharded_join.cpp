// Ranks with different numbers of batches: the rank that has data, the lowest of them, announces each part of
// a step to those that have none. So these need not know the model's graph, not even from a step of their
// own.
#include <ATen/ATen.h>

#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

#include "dlaunch/error.h"
#include "dlaunch/object.h"
#include "dlaunch/torch/tensor.h"
#include "runtime/torch/fully_sharded_impl.h"

namespace dlaunch::torch::internal {

void FullyShardedImpl::require_no_join(const char* operation) const {
  if (join_) reject("there is a Join, in which ranks may have finished", operation);
}

void FullyShardedImpl::begin_join(JoinOptions options) {
  if (join_) reject("there is a Join already", "join");
  if (is_full_ || in_backward_ || current() != nullptr)
    reject("there is a FullParameters, or this is within forward() or backward()", "join");
  join_.emplace(group_, options, options_.timeout, device());
}

void FullyShardedImpl::announce(Shared what, std::int64_t argument) {
  if (!join_ || !join_->some_have_finished()) return;
  // On the device of the module: the group may have no backend for the CPU.
  const at::Tensor message = at::tensor({static_cast<std::int64_t>(what), argument}).to(device());
  const Work work =
      group_.broadcast(view_of(message), join_->source(), {.async_op = true, .timeout = options_.timeout});
  // An error ends the operation that follows, too.
  work.then([message](const Work& ended) { static_cast<void>(ended.exception()); });
}

// An early end is an error of all ranks that does not break the group.
void FullyShardedImpl::count_ranks(bool has_data) {
  if (failure_) std::rethrow_exception(failure_);
  try {
    announce(Shared::count);
    join_->count(has_data);
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

void FullyShardedImpl::finish_join(const std::function<void()>& step) {
  if (!step) reject("finish() needs the optimizer's step: this rank has a part of the parameters", "join");
  count_ranks(false);
  or_fail([&] {
    for (const auto& unit : units_) unit->shard().mutable_grad().reset();  // of the last step
    for (bool is_due = false; join_->with_data() > 0;) take_part(step, is_due);
  });
  join_.reset();
  // Which unit is gathered ahead of its turn is the same on all ranks again.
  schedule_ = dlaunch::internal::UnitSchedule(units_.size());
  is_compared_ = false;
}

void FullyShardedImpl::take_part(const std::function<void()>& step, bool& is_due) {
  const at::Tensor on_device = at::empty({2}, at::TensorOptions(at::kLong).device(device()));
  group_.broadcast(view_of(on_device), join_->source(), {.async_op = false, .timeout = options_.timeout});
  const at::Tensor message = on_device.cpu();
  const auto argument = message[1].item<std::int64_t>();
  switch (static_cast<Shared>(message[0].item<std::int64_t>())) {
    case Shared::count:
      if (std::exchange(is_due, false)) {
        step();
        for (const auto& unit : units_) unit->shard().mutable_grad().reset();
      }
      return join_->count(false);
    case Shared::gather: {
      ShardedUnit& own = *units_.at(static_cast<std::size_t>(argument));
      own.start_gather();
      return own.release();
    }
    case Shared::reduce: {
      ShardedUnit& own = *units_.at(static_cast<std::size_t>(argument));
      own.start_reduce();
      return own.finish_reduce(join_->scale());
    }
    case Shared::compare_orders:
      static_cast<void>(all_gather_object(std::vector<std::string>(), group_));
      return;
    case Shared::clip:
      static_cast<void>(limit_norm(std::bit_cast<double>(argument)));
      return;
    case Shared::end_step:
      is_due = true;
      return;
  }
  reject("a rank has announced what this version does not know", "join");
}

void FullyShardedImpl::abandon_join() { std::exchange(join_, std::nullopt)->abandon(); }

}  // namespace dlaunch::torch::internal
