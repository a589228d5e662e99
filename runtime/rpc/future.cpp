#include "dlaunch/future.h"

#include "dlaunch/rpc.h"
#include "runtime/base/deadline.h"
#include "runtime/record/recorder.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {
namespace future_detail {

State::~State() = default;

bool State::claim() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(claimed_, true);
}

void State::complete(std::exception_ptr error) {
  std::vector<std::function<void()>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    done_ = true;
    callbacks.swap(callbacks_);
    completed_.notify_all();
  }
  for (std::function<void()>& callback : callbacks) run_ ? run_(std::move(callback)) : callback();
}

void State::on_completion(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!done_) return callbacks_.push_back(std::move(callback));
  }
  callback();
}

bool State::is_done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

bool State::wait(std::optional<std::chrono::milliseconds> timeout) const {
  std::unique_lock lock(mutex_);
  if (done_) return true;
  std::optional<AnswerWaitRecord> waiting;
  if (run_ == rpc::rpc_detail::run_callback) waiting.emplace();
  const auto is_done = [&] { return done_; };
  if (timeout) return completed_.wait_until(lock, deadline_after(*timeout), is_done);
  completed_.wait(lock, is_done);
  return true;
}

}  // namespace future_detail
}  // namespace v1
}  // namespace dlaunch
