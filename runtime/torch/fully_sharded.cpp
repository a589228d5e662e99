#include "dlaunch/torch/fully_sharded.h"

#include <utility>

#include "dlaunch/error.h"
#include "runtime/torch/fully_sharded_impl.h"

namespace dlaunch::torch {
inline namespace v1 {

ShardedDataParallel::ShardedDataParallel(std::shared_ptr<::torch::nn::Module> module,
                                         FullyShardedOptions options)
    : base_(std::move(module)) {
  if (!base_) throw DistError("there is no module", {.operation = "FullyShardedDataParallel"});
  impl_ = std::make_shared<internal::FullyShardedImpl>(base_, std::move(options));
  impl_->divide();
}

ShardedDataParallel::~ShardedDataParallel() = default;

std::vector<at::Tensor> ShardedDataParallel::shards() const {
  std::vector<at::Tensor> shards;
  for (const auto& unit : impl_->units()) shards.push_back(unit->shard());
  return shards;
}

std::vector<std::string> ShardedDataParallel::unit_names() const {
  std::vector<std::string> names;
  for (const auto& unit : impl_->units()) names.push_back(unit->name());
  return names;
}

void ShardedDataParallel::zero_grad() {
  for (const auto& unit : impl_->units()) unit->drop_gradients();
}

NoSync ShardedDataParallel::no_sync() { return NoSync(impl_); }

Join ShardedDataParallel::join(JoinOptions options) { return Join(impl_, options); }

double ShardedDataParallel::clip_grad_norm(double max_norm) { return impl_->clip_grad_norm(max_norm); }

at::Tensor ShardedDataParallel::gather(std::size_t shard, const at::Tensor& part) const {
  impl_->require_no_join("gather");
  return impl_->unit(shard).gather(part);
}

at::Tensor ShardedDataParallel::part_of(std::size_t shard, const at::Tensor& whole) const {
  return impl_->unit(shard).part_of(whole);
}

ShardedDataParallel::FullParameters::FullParameters(std::shared_ptr<internal::FullyShardedImpl> model)
    : model_(std::move(model)) {
  model_->begin_full();
}

ShardedDataParallel::FullParameters::~FullParameters() { model_->end_full(); }

ShardedDataParallel::FullParameters ShardedDataParallel::full_parameters() { return FullParameters(impl_); }

FullyShardedStatistics ShardedDataParallel::statistics() const { return impl_->statistics(); }

ShardedDataParallel::Pass::Pass(const ShardedDataParallel& model) : model_(model.impl_) {
  model_->begin_forward();
}

ShardedDataParallel::Pass::~Pass() {
  if (model_) model_->abandon_forward();
}

void ShardedDataParallel::Pass::finish(const std::vector<at::Tensor>& outputs) {
  std::exchange(model_, nullptr)->end_forward(outputs);
}

UnitPass::UnitPass(const ::torch::nn::Module& unit) {
  internal::FullyShardedImpl* const model = internal::FullyShardedImpl::current();
  if (model == nullptr) return;
  const auto number = model->unit_of(unit);
  if (!number) return;
  unit_ = *number;
  model_ = model->shared_from_this();
  model_->begin_unit(unit_);
}

UnitPass::~UnitPass() = default;  // without finish(): forward() throws, which releases all units

void UnitPass::finish(const std::vector<at::Tensor>& outputs) {
  if (const auto model = std::exchange(model_, nullptr)) model->end_unit(unit_, outputs);
}

}  // namespace v1
}  // namespace dlaunch::torch
