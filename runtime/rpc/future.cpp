#include "dlaunch/future.h"

#include <utility>

#include "dlaunch/rpc.h"
#include "dlaunch/rpc_context.h"
#include "runtime/base/deadline.h"
#include "runtime/record/recorder.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {
namespace future_detail {

namespace {

std::function<void()> in_context(std::uint64_t context, std::function<void()> callback) {
  return [context, callback = std::move(callback)] {
    const rpc::rpc_detail::CallContextScope scope(context);
    callback();
  };
}

}  // namespace

Helper::~Helper() = default;
State::~State() = default;

bool State::claim() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(claimed_, true);
}

void State::complete(std::exception_ptr error) {
  std::vector<std::function<void()>> callbacks;
  std::shared_ptr<Helper> helper;
  {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    done_ = true;
    callbacks.swap(callbacks_);
    helper.swap(helper_);
    completed_.notify_all();
  }
  for (std::function<void()>& callback : callbacks) run_ ? run_(std::move(callback)) : callback();
}

void State::on_completion(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!done_) {
      if (const std::uint64_t context = rpc::rpc_detail::call_context(); context != 0)
        callback = in_context(context, std::move(callback));
      return callbacks_.push_back(std::move(callback));
    }
  }
  callback();
}

void State::set_helper(std::shared_ptr<Helper> helper) {
  const std::lock_guard lock(mutex_);
  if (!done_) helper_ = std::move(helper);
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
  const std::optional<Deadline> deadline = timeout ? std::optional(deadline_after(*timeout)) : std::nullopt;
  if (const std::shared_ptr<Helper> helper = helper_) {
    lock.unlock();
    helper->help(*this, deadline.value_or(Deadline::max()));
    lock.lock();
  }
  if (deadline) return completed_.wait_until(lock, *deadline, is_done);
  completed_.wait(lock, is_done);
  return true;
}

}  // namespace future_detail
}  // namespace v1
}  // namespace dlaunch
