// Ranks with different numbers of batches: a rank that has finished takes part in the steps of the others.
#include <algorithm>

#include "dlaunch/error.h"
#include "runtime/torch/data_parallel_impl.h"

namespace dlaunch::torch::internal {

void DataParallelImpl::begin_join(JoinOptions options) {
  if (join_) {
    throw DistError("there is a Join already",
                    {.rank = group_.rank(), .operation = "join", .group = group_.name()});
  }
  join_ = {options, std::vector<std::uint8_t>(static_cast<std::size_t>(group_.size())), 0};
}

void DataParallelImpl::count_ranks(bool has_data) {
  std::vector<std::uint8_t> with_data(join_->with_data.size());
  with_data[static_cast<std::size_t>(group_.rank())] = has_data ? 1 : 0;
  group_.all_reduce(Tensor::of(with_data), ReduceOp::max, {.async_op = false, .timeout = options_.timeout});
  const auto count = static_cast<std::size_t>(std::ranges::count(with_data, 1));
  if (count > 0) join_->with_data = with_data;  // in the end: those that trained last
  join_->count = count;
  if (!join_->options.throw_on_early_termination || count == 0 || count == with_data.size()) return;
  const auto first = std::ranges::find(with_data, 0) - with_data.begin();
  throw DistError("rank " + std::to_string(first) + " has no more data (throw_on_early_termination)",
                  {.rank = group_.rank(), .operation = "join", .group = group_.name()});
}

int DataParallelImpl::source_rank() const {
  if (!join_) return 0;
  const auto lowest = std::ranges::find(join_->with_data, 1);
  return lowest == join_->with_data.end() ? 0 : static_cast<int>(lowest - join_->with_data.begin());
}

void DataParallelImpl::finish_join() {
  require_finished();
  {
    const std::lock_guard lock(mutex_);
    accepts_ = false;
  }
  or_fail([&] {
    for (count_ranks(false); join_->count > 0; count_ranks(false)) take_part_with_zeros();
    for (const auto* all : {&tensors_.trained, &tensors_.frozen, &tensors_.buffers})
      broadcast_all(group_, *all, source_rank(), options_.timeout);
  });
  join_.reset();
}

// What forward() and backward() of the others do.
void DataParallelImpl::take_part_with_zeros() {
  if (options_.broadcast_buffers) broadcast_all(group_, tensors_.buffers, source_rank(), options_.timeout);
  if (!step_open_) begin_step();
  const bool may_be_unused = options_.find_unused_parameters || options_.static_graph;
  for (std::size_t i = names_.size(); i-- > 0;) {
    if (may_be_unused) {
      reducer_->mark_unused(i);
      continue;
    }
    const auto bytes = reducer_->gradient(i).bytes();
    std::ranges::fill(bytes, std::byte{0});
    reducer_->mark_ready(i);
  }
  reducer_->finish_step();
  step_open_ = false;
}

void DataParallelImpl::abandon_join() {
  join_.reset();
  group_.abort("rank " + std::to_string(group_.rank()) + " has left its Join without finish()");
}

}  // namespace dlaunch::torch::internal
