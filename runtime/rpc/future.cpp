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

bool State::claim() { return (flags_.fetch_or(claimed, std::memory_order_acq_rel) & claimed) == 0; }

// A thread that has not set `watched` before finds the state done.
void State::complete(std::exception_ptr error) {
  error_ = std::move(error);
  const bool is_watched = (flags_.fetch_or(done, std::memory_order_acq_rel) & watched) != 0;
  std::vector<std::function<void()>> callbacks;
  std::shared_ptr<Helper> helper;
  if (is_watched) {
    const std::lock_guard lock(mutex_);
    callbacks.swap(callbacks_);
    helper.swap(helper_);
    completed_.notify_all();
  } else {
    helper.swap(helper_);
  }
  for (std::function<void()>& callback : callbacks) run_ ? run_(std::move(callback)) : callback();
}

void State::on_completion(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if ((flags_.fetch_or(watched, std::memory_order_acq_rel) & done) == 0) {
      if (const std::uint64_t context = rpc::rpc_detail::call_context(); context != 0)
        callback = in_context(context, std::move(callback));
      return callbacks_.push_back(std::move(callback));
    }
  }
  callback();
}

void State::set_helper(std::shared_ptr<Helper> helper) {
  if (!is_done()) helper_ = std::move(helper);
}

bool State::wait(std::optional<std::chrono::milliseconds> timeout) const {
  if (is_done()) return true;
  std::unique_lock lock(mutex_);
  if ((flags_.fetch_or(watched, std::memory_order_acq_rel) & done) != 0) return true;
  std::optional<AnswerWaitRecord> waiting;
  if (run_ == rpc::rpc_detail::run_callback) waiting.emplace();
  const std::optional<Deadline> deadline = timeout ? std::optional(deadline_after(*timeout)) : std::nullopt;
  if (const std::shared_ptr<Helper> helper = helper_) {
    lock.unlock();
    helper->help(*this, deadline.value_or(Deadline::max()));
    if (is_done()) return true;
    lock.lock();
  }
  const auto has_come = [&] { return is_done(); };
  if (deadline) return completed_.wait_until(lock, *deadline, has_come);
  completed_.wait(lock, has_come);
  return true;
}

}  // namespace future_detail
}  // namespace v1
}  // namespace dlaunch
