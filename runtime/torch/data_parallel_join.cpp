// Ranks with different numbers of batches: a rank that has finished takes part in the steps of the others.
#include <ATen/ATen.h>

#include <optional>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/torch/data_parallel_impl.h"

namespace dlaunch::torch::internal {

void DataParallelImpl::begin_join(JoinOptions options) {
  if (join_) {
    throw DistError("there is a Join already",
                    {.rank = group_.rank(), .operation = "join", .group = group_.name()});
  }
  join_.emplace(group_, options, options_.timeout, device());
}

int DataParallelImpl::source_rank() const { return join_ ? join_->source() : 0; }

void DataParallelImpl::finish_join(const std::function<void()>& step) {
  require_finished();
  {
    const std::lock_guard lock(mutex_);
    accepts_ = false;
  }
  or_fail([&] {
    for (join_->count(false); join_->with_data() > 0; join_->count(false)) {
      take_part_with_zeros();
      if (!step) continue;
      take_results();
      step();
    }
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
    view_of_gradient(i).zero_();
    reducer_->mark_ready(i);
  }
  reducer_->finish_step();
  step_open_ = false;
}

// As if this rank had computed gradients.
void DataParallelImpl::take_results() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < names_.size(); ++i) take_result_of_unused(i);
  scale_gradients();
}

void DataParallelImpl::scale_gradients() {
  if (!join_ || join_->scale() == 1) return;
  for (const NamedTensor& trained : tensors_.trained)
    if (at::Tensor& gradient = gradient_place(trained.tensor); gradient.defined())
      gradient.mul_(join_->scale());
}

void DataParallelImpl::abandon_join() { std::exchange(join_, std::nullopt)->abandon(); }

}  // namespace dlaunch::torch::internal
