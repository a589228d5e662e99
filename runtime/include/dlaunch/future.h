// A value that comes later, with chains of what is done then.
//
//   dlaunch::Future<int> sum = dlaunch::rpc::rpc_async("worker1", add, 1, 2);
//   dlaunch::Future<int> doubled = sum.then([](const dlaunch::Future<int>& done) { return 2 * done.wait();
//   }); doubled.wait();  // 6
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "dlaunch/error.h"
#include "dlaunch/export.h"

namespace dlaunch {
inline namespace v1 {

template <class T>
class Future;
template <class T>
class Promise;

namespace future_detail {

class State;

// Brings the completion about on a thread that waits for it.
class DLAUNCH_EXPORT Helper {
 public:
  Helper() = default;
  virtual ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;
  // Returns when the state is done or the time has come; it may return at any time before.
  virtual void help(const State& state, std::chrono::steady_clock::time_point until) = 0;
};

// All of a future but its value. Any thread.
class DLAUNCH_EXPORT State {
 public:
  // Runs a callback; none: the thread that completes the future does.
  using Run = void (*)(std::function<void()> callback);

  explicit State(Run how) : run_(how) {}
  virtual ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // The caller becomes the one that completes it; false: another one has.
  [[nodiscard]] bool claim();
  // Wakes all that wait, then runs the callbacks. REQUIRES: claim() has returned true; the value is stored
  // unless there is an error; the state lives until it returns, though threads that wait may go on before.
  void complete(std::exception_ptr error);
  // After completion; at once, on this thread, if that is past.
  void on_completion(std::function<void()> callback);

  // Whose help threads that wait get first, until completion. REQUIRES: no other thread uses the state yet.
  void set_helper(std::shared_ptr<Helper> helper);

  [[nodiscard]] bool is_done() const { return (flags_.load(std::memory_order_acquire) & done) != 0; }
  // False: not within `timeout`; none: waits for ever.
  [[nodiscard]] bool wait(std::optional<std::chrono::milliseconds> timeout) const;
  // Null: it has a value. REQUIRES: is_done().
  [[nodiscard]] const std::exception_ptr& error() const { return error_; }
  [[nodiscard]] Run run() const { return run_; }

 private:
  // `watched`: threads wait, or there are callbacks: then completion takes the mutex.
  enum Flags : unsigned { claimed = 1, done = 2, watched = 4 };

  const Run run_;
  mutable std::atomic<unsigned> flags_ = 0;
  mutable std::mutex mutex_;
  mutable std::condition_variable completed_;
  std::exception_ptr error_;
  std::vector<std::function<void()>> callbacks_;
  std::shared_ptr<Helper> helper_;
};

template <class T>
using Stored = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <class T>
class ValueState final : public State {
 public:
  using State::State;
  std::optional<Stored<T>> value;

  // The first of these calls completes the future; later ones do nothing.
  void set_value(Stored<T> result) {
    if (!claim()) return;
    value.emplace(std::move(result));
    complete(nullptr);
  }
  void set_exception(std::exception_ptr why) {
    if (claim()) complete(std::move(why));
  }
  // With what make() returns or throws.
  template <class Make>
  void set_result_of(const Make& make) {
    try {
      if constexpr (std::is_void_v<T>) {
        make();
        set_value({});
      } else {
        set_value(make());
      }
    } catch (...) {
      set_exception(std::current_exception());
    }
  }
};

struct Access {
  template <class T>
  static State& state_of(const Promise<T>& promise) {
    return *promise.state_;
  }
  template <class T>
  static Future<T> future_of(std::shared_ptr<ValueState<T>> state) {
    return Future<T>(std::move(state));
  }
};

template <class T>
struct IsFuture : std::false_type {};
template <class T>
struct IsFuture<Future<T>> : std::true_type {};

template <class T>
struct Unwrap {
  using type = T;
};
template <class T>
struct Unwrap<Future<T>> {
  using type = T;
};

}  // namespace future_detail

// A handle; copies refer to the same value. A default-constructed one refers to none, and may only be
// assigned to. Any thread may call, also several at once.
template <class T>
class Future {
 public:
  using Value = T;
  using Reference = std::conditional_t<std::is_void_v<T>, void, const future_detail::Stored<T>&>;

  Future() = default;

  // Waits, then returns the value, which lives as long as a handle; or throws the error. Every call does so.
  Reference wait() const {
    (void)state_->wait(std::nullopt);
    return value();
  }
  // The same, but throws DistNetworkError if there is no value within `timeout`. The future is not changed.
  Reference wait(std::chrono::milliseconds timeout) const {
    if (!state_->wait(timeout)) {
      throw DistNetworkError("the future was not completed within " + std::to_string(timeout.count()) +
                             " ms");
    }
    return value();
  }

  [[nodiscard]] bool done() const { return state_->is_done(); }
  // Null: not done, or it has a value.
  [[nodiscard]] std::exception_ptr exception() const { return done() ? state_->error() : nullptr; }

  // Calls `callback` with this future once it is done; a remote call's on a thread of its workers, others on
  // the thread that completes it; at once on this thread if it is done. The result is a future of what
  // `callback` returns or throws; if that is a future itself, of its value.
  template <class Callback>
  auto then(Callback callback) const;

 private:
  template <class U>
  friend class Future;
  template <class U>
  friend class Promise;
  friend struct future_detail::Access;
  explicit Future(std::shared_ptr<future_detail::ValueState<T>> state) : state_(std::move(state)) {}

  Reference value() const {
    if (state_->error()) std::rethrow_exception(state_->error());
    if constexpr (!std::is_void_v<T>) return *state_->value;
  }

  std::shared_ptr<future_detail::ValueState<T>> state_;
};

// The side that completes a future. Copies refer to the same future. If all are gone before, it is never
// completed.
template <class T>
class Promise {
 public:
  Promise() : Promise(nullptr) {}
  explicit Promise(future_detail::State::Run run)
      : state_(std::make_shared<future_detail::ValueState<T>>(run)) {}

  [[nodiscard]] Future<T> future() const { return Future<T>(state_); }

  // The first of these calls completes the future; later ones do nothing.
  void set_value(future_detail::Stored<T> value = {}) const { state_->set_value(std::move(value)); }
  void set_exception(std::exception_ptr error) const { state_->set_exception(std::move(error)); }
  // With what make() returns or throws.
  template <class Make>
  void set_result_of(const Make& make) const {
    state_->set_result_of(make);
  }

 private:
  friend struct future_detail::Access;

  std::shared_ptr<future_detail::ValueState<T>> state_;
};

template <class T>
template <class Callback>
auto Future<T>::then(Callback callback) const {
  using Returned = std::invoke_result_t<Callback, const Future<T>&>;
  using Result = typename future_detail::Unwrap<Returned>::type;
  const Promise<Result> promise(state_->run());
  state_->on_completion([self = *this, promise, callback = std::move(callback)] {
    if constexpr (future_detail::IsFuture<Returned>::value) {
      try {
        const Returned inner = callback(self);
        inner.state_->on_completion(
            [inner, promise] { promise.set_result_of([&]() -> Result { return inner.wait(); }); });
      } catch (...) {
        promise.set_exception(std::current_exception());
      }
    } else {
      promise.set_result_of([&]() -> Result { return callback(self); });
    }
  });
  return promise.future();
}

}  // namespace v1
}  // namespace dlaunch
