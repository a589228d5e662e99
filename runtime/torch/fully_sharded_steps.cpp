// What a FullyShardedDataParallel does in forward() and backward().
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "dlaunch/error.h"
#include "dlaunch/object.h"
#include "runtime/torch/fully_sharded_impl.h"

namespace dlaunch::torch::internal {

namespace {

// So many units are reduced at a time: their gradients are whole meanwhile.
constexpr std::size_t most_reductions = 2;

}  // namespace

void FullyShardedImpl::gather(std::size_t unit, std::optional<std::size_t> next) {
  ShardedUnit& own = *units_[unit];
  if (own.is_sharded()) start_gather(unit);
  if (next && units_[*next]->is_sharded()) {
    ++statistics_.prefetched;
    start_gather(*next);
  }
  note_memory();
  own.finish_gather();
}

void FullyShardedImpl::start_gather(std::size_t unit) {
  ++statistics_.gathers;
  announce(Shared::gather, static_cast<std::int64_t>(unit));
  units_[unit]->start_gather();
}

void FullyShardedImpl::release(std::size_t unit) {
  if (!is_full_) units_[unit]->release();
}

void FullyShardedImpl::begin_forward() {
  if (current() != nullptr) reject("this thread is in a forward() of a sharded model already", "forward");
  const bool records = c10::GradMode::is_enabled();
  if (is_full_ && records)
    reject("there is a FullParameters: forward() is without gradients then", "forward");
  if (join_) count_ranks(true);
  or_fail([&] {
    if (in_backward_) reject("the backward() before has thrown, or this is within it", "forward");
    records_ = records;
    if (records) reduces_ = no_sync_guards_ == 0;
    if (has_rest_) begin_unit(0);
  });
  current() = this;
}

void FullyShardedImpl::end_forward(const std::vector<at::Tensor>& outputs) {
  current() = nullptr;
  or_fail([&] {
    if (records_ && !std::exchange(is_compared_, true)) compare_orders();
    if (records_ && has_rest_) watch(0, outputs);
    // The rest stays until the end of backward(). Of the others none is left, but one that was gathered ahead
    // in vain.
    for (std::size_t unit = records_ && has_rest_ ? 1 : 0; unit < units_.size(); ++unit) release(unit);
  });
}

void FullyShardedImpl::abandon_forward() noexcept {
  current() = nullptr;
  try {
    for (std::size_t unit = 0; unit < units_.size(); ++unit) release(unit);
  } catch (const std::exception&) {  // a gathering has failed, as the next one will
  }
}

void FullyShardedImpl::compare_orders() {
  announce(Shared::compare_orders);
  std::vector<std::string> order;
  for (const std::size_t unit : schedule_.order()) order.push_back(units_[unit]->name());
  const std::vector<std::vector<std::string>> all = all_gather_object(order, group_);
  const auto text_of = [](const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names)
      text += (text.empty() ? "" : ", ") + (name.empty() ? "the rest" : name);
    return text;
  };
  const std::size_t first = join_ ? static_cast<std::size_t>(join_->source()) : 0;
  for (std::size_t rank = first + 1; rank < all.size(); ++rank) {
    if (all[rank] == all[first] || (all[rank].empty() && join_)) continue;  // it has no data
    reject("the ranks run their units in different orders: rank " + std::to_string(first) + " " +
               text_of(all[first]) + "; rank " + std::to_string(rank) + " " + text_of(all[rank]),
           "forward");
  }
}

void FullyShardedImpl::begin_unit(std::size_t unit) {
  or_fail([&] {
    if (records_) schedule_.forward(unit);
    gather(unit, schedule_.after(unit));
  });
}

void FullyShardedImpl::end_unit(std::size_t unit, const std::vector<at::Tensor>& outputs) {
  or_fail([&] {
    if (records_) watch(unit, outputs);
    release(unit);
  });
}

void FullyShardedImpl::watch(std::size_t unit, const std::vector<at::Tensor>& outputs) {
  for (const at::Tensor& output : outputs) {
    if (!output.defined() || !output.requires_grad()) continue;
    output.register_hook([weak = weak_from_this(), unit](const at::Tensor& /*gradient*/) {
      if (const auto self = weak.lock()) self->or_fail([&] { self->on_backward(unit); });
    });
  }
}

void FullyShardedImpl::on_backward(std::size_t unit) {
  begin_backward();
  gather(unit, schedule_.before(unit));
}

void FullyShardedImpl::begin_backward() {
  if (std::exchange(in_backward_, true)) return;
  at_end_of_backward([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->or_fail([&] { self->end_backward(); });
  });
}

void FullyShardedImpl::on_gradient(std::size_t parameter) {
  begin_backward();
  const std::size_t unit = unit_of_parameter_[parameter];
  if (++arrived_[unit] != units_[unit]->parameters().size()) return;
  for (const std::size_t ready : schedule_.complete(unit)) reduce(ready);
}

void FullyShardedImpl::reduce(std::size_t unit) {
  if (!reduces_) {
    units_[unit]->keep_gradients();
    note_memory();
    return release(unit);
  }
  if (in_reduction_.size() == most_reductions) {
    units_[in_reduction_.front()]->finish_reduce(join_ ? join_->scale() : 1);
    in_reduction_.pop_front();
  }
  announce(Shared::reduce, static_cast<std::int64_t>(unit));
  units_[unit]->start_reduce();
  in_reduction_.push_back(unit);
  note_memory();
  release(unit);
}

void FullyShardedImpl::end_backward() {
  for (const std::size_t unit : schedule_.end_backward()) reduce(unit);
  if (reduces_) {
    for (std::size_t unit = 0; unit < units_.size(); ++unit)  // those that this pass has not used
      if (units_[unit]->keeps_gradients()) reduce(unit);
  }
  for (const std::size_t unit : std::exchange(in_reduction_, {}))
    units_[unit]->finish_reduce(join_ ? join_->scale() : 1);
  if (reduces_) announce(Shared::end_step);
  for (std::size_t unit = 0; unit < units_.size(); ++unit) release(unit);
  arrived_.assign(units_.size(), 0);
  in_backward_ = false;
  ++statistics_.steps;
}

void FullyShardedImpl::begin_full() {
  require_no_join("full_parameters");
  if (is_full_ || current() != nullptr || in_backward_) {
    reject(is_full_ ? "there is a FullParameters already" : "it is made within forward() or backward()",
           "full_parameters");
  }
  or_fail([&] {
    is_full_ = true;
    for (const auto& unit : units_) unit->start_gather();
    for (const auto& unit : units_) unit->finish_gather();
    statistics_.gathers += units_.size();
  });
}

void FullyShardedImpl::end_full() noexcept {
  is_full_ = false;
  for (const auto& unit : units_) {
    unit->write_back();
    unit->release();  // no gathering runs
  }
}

}  // namespace dlaunch::torch::internal
