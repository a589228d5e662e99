#include "dlaunch/torch/join.h"

#include <utility>

#include "runtime/torch/guarded_model.h"

namespace dlaunch::torch {
inline namespace v1 {

NoSync::NoSync(std::shared_ptr<internal::GuardedModel> model) : model_(std::move(model)) {
  model_->enter_no_sync();
}

NoSync::~NoSync() { model_->leave_no_sync(); }

Join::Join(std::shared_ptr<internal::GuardedModel> model, JoinOptions options) : model_(std::move(model)) {
  model_->begin_join(options);
}

Join::~Join() {
  if (model_) model_->abandon_join();
}

void Join::finish(const std::function<void()>& step) {
  if (const auto model = std::exchange(model_, nullptr)) model->finish_join(step);
}

}  // namespace v1
}  // namespace dlaunch::torch
