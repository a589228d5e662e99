#include "dlaunch/work.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/own_process.h"
#include "runtime/record/recorder.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {

namespace {
// A wait shorter than this counts as polling.
constexpr auto shortest_wait = std::chrono::seconds(1);

// As long as one exists, its thread is inside a callback.
class CallingBack {
 public:
  CallingBack() { ++depth; }
  ~CallingBack() { --depth; }
  CallingBack(const CallingBack&) = delete;
  CallingBack& operator=(const CallingBack&) = delete;

  static bool here() { return depth > 0; }

 private:
  static thread_local int depth;
};
thread_local int CallingBack::depth = 0;

}  // namespace

// For the agent a collective counts as waiting while it runs. A message may be posted long before the program
// needs it: it counts as waiting from wait(), then() or get_future() on, and each poll counts by itself.
//
// Waiting threads are notified after the callbacks have run, since a callback may refer to objects of such a
// thread. A callback itself does not wait for callbacks: it would wait for itself.
struct Work::State {
  enum class Stage : std::uint8_t { running, calling_back, over };

  const bool is_message;
  const std::function<bool()> order;  // if it runs on a stream
  const bool is_captured;             // into a graph
  const bool is_queued;               // on a device, which reports when it comes to it
  const OwnProcess own_process;

  std::mutex mutex;
  std::condition_variable completed;
  // protected by mutex
  Stage stage = Stage::running;
  std::exception_ptr error;
  int source_rank = -1;
  std::vector<std::function<void(const Work&)>> callbacks;
  bool seen = false;  // the program has read the result
  // It is over, without an error: nothing that the mutex protects changes any more.
  std::atomic<bool> has_succeeded = false;
  std::optional<WaitRecord> awaited;
  bool has_begun = false;
  std::function<void()> when_begun;             // does not change once it has begun
  std::function<void(const Work&)> when_ended;  // does not change once the stage has

  State(bool of_message, std::function<bool()> order_stream, bool captured = false, bool queued = false)
      : is_message(of_message), order(std::move(order_stream)), is_captured(captured), is_queued(queued) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (error && !seen)
      log(LogLevel::warning, "an operation failed and no call waited for it: " + message_of(error));
  }

  // In a forked copy a thread that exists only in the original may hold the mutex for ever.
  std::unique_lock<std::mutex> look() {
    if (own_process.is_this()) return std::unique_lock(mutex);
    std::unique_lock lock(mutex, std::try_to_lock);
    if (!lock) throw DistError(forked_copy);
    return lock;
  }

  // Whether it has completed within that time. With `lock` held on the mutex.
  bool await(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds timeout) {
    if (is_done()) return true;
    std::optional<WaitRecord> waiting;
    if (timeout >= shortest_wait) waiting.emplace();
    return completed.wait_until(lock, deadline_after(timeout), [this] { return has_ended(); });
  }

  // Whether it has completed; counts as a poll. With the mutex held. Throws in a forked copy, where it never
  // completes.
  [[nodiscard]] bool is_done() const {
    if (stage != Stage::over && !own_process.is_this()) throw DistError(forked_copy);
    if (stage == Stage::running && is_message) record_poll();
    return has_ended();
  }

  // For this thread. With the mutex held.
  [[nodiscard]] bool has_ended() const {
    return stage == Stage::over || (stage == Stage::calling_back && CallingBack::here());
  }

  void begin() {
    {
      const std::lock_guard lock(mutex);
      if (stage != Stage::running) return;
      has_begun = true;
    }
    if (when_begun) when_begun();
  }

  // `self`: a thread that waits may destroy the last WorkSource before this returns.
  void complete(std::shared_ptr<State> self, std::exception_ptr reason, int source, bool is_news) {
    std::vector<std::function<void(const Work&)>> to_call;
    {
      const std::lock_guard lock(mutex);
      if (stage != Stage::running) return;
      error = std::move(reason);
      source_rank = source;
      seen |= !is_news;
      to_call.swap(callbacks);
      awaited.reset();
      if (to_call.empty() && !when_ended) return be_over();
      stage = Stage::calling_back;
      completed.notify_all();
    }
    {
      const CallingBack inside;
      if (when_ended) when_ended(Work(self));
      for (const auto& callback : to_call) callback(Work(self));
      to_call.clear();  // their captures are destroyed before waiting threads are notified
    }
    const std::lock_guard lock(mutex);
    be_over();
  }

  // Of a call that orders the current stream; a captured operation has succeeded before it runs.
  [[nodiscard]] bool needs_no_lock() const { return has_succeeded && !is_captured; }

  // With the mutex held.
  void be_over() {
    stage = Stage::over;
    has_succeeded.store(!error, std::memory_order_release);
    completed.notify_all();
  }
};

bool Work::order_stream() const {
  if (!state_ || state_->needs_no_lock()) return true;
  {
    const auto lock = state_->look();
    if (state_->has_ended() && (state_->error || !state_->is_captured)) return !state_->error;
    if (!state_->own_process.is_this()) throw DistError(forked_copy);
  }
  return state_->order && state_->order();
}

void Work::wait() const {
  if (state_ && state_->order && order_stream()) return;
  synchronize();
}

void Work::synchronize() const {
  if (!state_ || state_->has_succeeded) return;
  std::unique_lock lock = state_->look();
  while (!state_->await(lock, longest_timeout)) {
  }
  state_->seen = true;
  if (state_->error) std::rethrow_exception(state_->error);
}

void Work::wait(std::chrono::milliseconds timeout) const {
  if (!state_ || state_->has_succeeded) return;
  std::unique_lock lock = state_->look();
  if (!state_->await(lock, timeout)) {
    throw DistError("the operation has not completed within " + in_words(timeout) + "; it goes on");
  }
  state_->seen = true;
  if (state_->error) std::rethrow_exception(state_->error);
}

bool Work::is_completed() const {
  if (!state_ || state_->needs_no_lock() || (state_->order && order_stream())) return true;
  const auto lock = state_->look();
  return state_->is_done();
}

bool Work::is_on_stream() const { return state_ && state_->order; }

bool Work::is_captured() const { return state_ && state_->is_captured; }

bool Work::has_ended() const {
  if (!state_ || state_->has_succeeded) return true;
  const auto lock = state_->look();
  return state_->is_done();
}

bool Work::is_success() const {
  if (!state_ || state_->needs_no_lock() || (state_->order && order_stream())) return true;
  const auto lock = state_->look();
  return state_->is_done() && !state_->error;
}

std::exception_ptr Work::exception() const {
  if (!state_ || state_->has_succeeded) return nullptr;
  const auto lock = state_->look();
  if (!state_->is_done()) return nullptr;
  state_->seen = true;
  return state_->error;
}

int Work::source_rank() const {
  if (!state_) return -1;
  if (state_->has_succeeded) return state_->source_rank;
  const auto lock = state_->look();
  return state_->has_ended() ? state_->source_rank : -1;
}

void Work::then(std::function<void(const Work&)> callback) const {
  if (!callback) throw DistError("Work::then: there is no function to call");
  if (state_) {
    const auto lock = state_->look();
    if (state_->stage == State::Stage::running) {
      if (!state_->own_process.is_this()) throw DistError(forked_copy);
      state_->callbacks.push_back(std::move(callback));
      if (state_->is_message && !state_->awaited) state_->awaited.emplace();
      return;
    }
  }
  const CallingBack inside;
  callback(*this);
}

std::future<void> Work::get_future() const {
  const auto promise = std::make_shared<std::promise<void>>();
  then([promise](const Work& work) {
    if (const std::exception_ptr error = work.exception()) {
      promise->set_exception(error);
    } else {
      promise->set_value();
    }
  });
  return promise->get_future();
}

WorkSource::WorkSource() : WorkSource(std::function<bool()>()) {}
WorkSource::WorkSource(std::function<bool()> order)
    : WorkSource(std::make_shared<Work::State>(false, std::move(order))) {}
WorkSource::WorkSource(std::shared_ptr<Work::State> state) : state_(std::move(state)) {}
WorkSource WorkSource::of_message(std::function<bool()> order, bool is_captured) {
  return WorkSource(std::make_shared<Work::State>(true, std::move(order), is_captured));
}
WorkSource WorkSource::of_captured(std::function<bool()> order) {
  return WorkSource(std::make_shared<Work::State>(false, std::move(order), true));
}
WorkSource WorkSource::of_queued(std::function<bool()> order) {
  return WorkSource(std::make_shared<Work::State>(false, std::move(order), false, true));
}
bool WorkSource::has_succeeded(const Work& work) { return !work.state_ || work.state_->needs_no_lock(); }
bool WorkSource::is_queued(const Work& work) { return work.state_ && work.state_->is_queued; }
void WorkSource::when_begun(const Work& work, std::function<void()> callback) {
  {
    const std::lock_guard lock(work.state_->mutex);
    if (work.state_->stage != Work::State::Stage::running) return;
    if (!work.state_->has_begun) {
      work.state_->when_begun = std::move(callback);
      return;
    }
  }
  callback();
}
void WorkSource::when_ended(const Work& work, std::function<void(const Work&)> callback) {
  {
    const std::lock_guard lock(work.state_->mutex);
    if (work.state_->stage == Work::State::Stage::running && !work.state_->when_ended) {
      work.state_->when_ended = std::move(callback);
      return;
    }
  }
  work.then(std::move(callback));
}
Work WorkSource::work() const { return Work(state_); }
void WorkSource::begin() const { state_->begin(); }
void WorkSource::succeed() const { state_->complete(state_, nullptr, -1, true); }
void WorkSource::succeed_from(int source_rank) const { state_->complete(state_, nullptr, source_rank, true); }
void WorkSource::fail(std::exception_ptr reason) const {
  state_->complete(state_, std::move(reason), -1, true);
}
void WorkSource::fail_silently(std::exception_ptr reason) const {
  state_->complete(state_, std::move(reason), -1, false);
}

}  // namespace v1
}  // namespace dlaunch
