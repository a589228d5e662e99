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

DataParallel::NoSync::NoSync(std::shared_ptr<internal::DataParallelImpl> model) : model_(std::move(model)) {
  model_->enter_no_sync();
}

DataParallel::NoSync::~NoSync() { model_->leave_no_sync(); }

DataParallel::NoSync DataParallel::no_sync() { return NoSync(impl_); }

DataParallel::Join::Join(std::shared_ptr<internal::DataParallelImpl> model, JoinOptions options)
    : model_(std::move(model)) {
  model_->begin_join(options);
}

DataParallel::Join::~Join() {
  if (model_) model_->abandon_join();
}

void DataParallel::Join::finish() {
  if (const auto model = std::exchange(model_, nullptr)) model->finish_join();
}

DataParallel::Join DataParallel::join(JoinOptions options) { return Join(impl_, options); }

void DataParallel::register_comm_hook(CommHook hook) { impl_->register_comm_hook(std::move(hook)); }

DataParallelStatistics DataParallel::statistics() const { return impl_->statistics(); }

void DataParallel::begin_forward() { impl_->begin_forward(); }

void DataParallel::end_forward(const std::vector<at::Tensor>& outputs) { impl_->end_forward(outputs); }

}  // namespace v1
}  // namespace dlaunch::torch
