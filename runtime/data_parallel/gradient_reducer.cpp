#include <utility>

#include "dlaunch/data_parallel.h"
#include "runtime/data_parallel/reducer_impl.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {

GradientReducer::GradientReducer(std::vector<Parameter> parameters, ReducerOptions options,
                                 ProcessGroup group)
    : impl_(std::make_shared<ReducerImpl>(std::move(parameters), std::move(options), std::move(group))) {}
GradientReducer::~GradientReducer() = default;

Tensor GradientReducer::gradient(std::size_t parameter) const { return impl_->gradient(parameter); }
std::shared_ptr<const void> GradientReducer::memory() const { return impl_->memory(); }
void GradientReducer::zero_gradients() { impl_->zero_gradients(); }
void GradientReducer::begin_step() { impl_->begin_step(); }
void GradientReducer::mark_ready(std::size_t parameter) { impl_->mark_ready(parameter, nullptr); }
void GradientReducer::mark_ready(std::size_t parameter, const Tensor& gradient) {
  impl_->mark_ready(parameter, &gradient);
}
void GradientReducer::mark_unused(std::size_t parameter) { impl_->mark_unused(parameter); }
void GradientReducer::finish_step() { impl_->finish_step(); }
bool GradientReducer::used(std::size_t parameter) const { return impl_->used(parameter); }
void GradientReducer::register_comm_hook(CommHook hook) { impl_->register_comm_hook(std::move(hook)); }
ReducerStatistics GradientReducer::statistics() const { return impl_->statistics(); }

GradientReducer::NoSync GradientReducer::no_sync() { return NoSync(impl_); }
GradientReducer::NoSync::NoSync(std::shared_ptr<ReducerImpl> reducer) : reducer_(std::move(reducer)) {
  reducer_->enter_no_sync();
}
GradientReducer::NoSync::~NoSync() { reducer_->leave_no_sync(); }

}  // namespace v1
}  // namespace dlaunch
