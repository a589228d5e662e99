#include "dlaunch/torch/data_parallel.h"

#include <utility>

#include "dlaunch/error.h"
#include "runtime/torch/data_parallel_impl.h"

namespace dlaunch::torch {
inline namespace v1 {

DataParallel::DataParallel(std::shared_ptr<::torch::nn::Module> module, DataParallelOptions options)
    : base_(std::move(module)) {
  if (!base_) throw DistError("there is no module", {.operation = "DistributedDataParallel"});
  impl_ = std::make_shared<internal::DataParallelImpl>(base_, std::move(options));
  impl_->attach_hooks();
}

DataParallel::~DataParallel() = default;

NoSync DataParallel::no_sync() { return NoSync(impl_); }

Join DataParallel::join(JoinOptions options) { return Join(impl_, options); }

void DataParallel::register_comm_hook(CommHook hook) { impl_->register_comm_hook(std::move(hook)); }

DataParallelStatistics DataParallel::statistics() const { return impl_->statistics(); }

void DataParallel::begin_forward() { impl_->begin_forward(); }

at::Tensor DataParallel::on_device(const at::Tensor& argument) const { return impl_->on_device(argument); }

void DataParallel::end_forward(const std::vector<at::Tensor>& outputs) { impl_->end_forward(outputs); }

}  // namespace v1
}  // namespace dlaunch::torch
