// An operation that was started.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <memory>

#include "dlaunch/export.h"

namespace dlaunch {
inline namespace v1 {

// In place of a rank to receive from: whoever sends first.
inline constexpr int any_source = -1;

class GroupImpl;

// A handle; copies mean the same operation. It completes exactly once, with success or
// with an error, at the latest shortly after the operation's deadline. A default-made
// Work is one that has succeeded. Dropping every handle neither cancels the operation nor
// waits for it; an error nobody waited for is what the group's next call throws, and is logged as a warning,
// once where one cause ends several operations.
//
// To the watch of `dlaunch --hang-timeout` a message counts as waited for while wait() does, from then() or
// get_future() on, and while it is asked for again and again (is_completed() and its like, or a short
// wait()); a receive that was posted in advance, and nobody asks about, does not.
//
// All members may be called from several threads at once.
class DLAUNCH_EXPORT Work {
 public:
  Work() = default;

  // Returns when the operation has succeeded; throws its DistError if it has
  // failed. Every call does so, not only the first.
  void wait() const;

  // The same as wait(): CPU tensors have no stream that could wait instead.
  void synchronize() const { wait(); }

  // wait(), but throws DistError if the operation has not completed within
  // `timeout`. The operation goes on.
  void wait(std::chrono::milliseconds timeout) const;

  [[nodiscard]] bool is_completed() const;  // success or error
  [[nodiscard]] bool is_success() const;    // completed without an error

  // Why it failed; null while it runs and after a success.
  [[nodiscard]] std::exception_ptr exception() const;

  // Of a receive that has succeeded: the rank in the group that sent the message; else -1.
  [[nodiscard]] int source_rank() const;

  // Calls `callback` once: when the operation has ended, on the thread that ends it, in the order of these
  // calls; or at once on this thread if it has ended already. Everybody else finds it completed when the
  // callbacks have returned and are destroyed: until then wait() waits, so they may refer to what is the
  // waiter's. Inside a callback every operation that has ended is a completed one. It must not block (nor
  // lock what one who waits has locked), throw, or start an operation.
  void then(std::function<void(const Work&)> callback) const;

  // Becomes ready when the operation has ended and the callbacks of earlier then() have returned, and then
  // throws what wait() throws.
  [[nodiscard]] std::future<void> get_future() const;

 private:
  friend class WorkSource;
  struct State;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

// The side that completes a Work: what a backend keeps.
class DLAUNCH_EXPORT WorkSource {
 public:
  WorkSource();

  [[nodiscard]] Work work() const;

  // Exactly one of these ends the operation; later calls do nothing. Callbacks run before the call returns.
  void succeed() const;
  void succeed_from(int source_rank) const;  // a receive
  void fail(std::exception_ptr reason) const;
  // The same where the cause has been told by another operation already: no warning if nobody waits for it.
  void fail_silently(std::exception_ptr reason) const;

 private:
  friend class GroupImpl;
  explicit WorkSource(std::shared_ptr<Work::State> state);
  static WorkSource of_message();

  std::shared_ptr<Work::State> state_;
};

}  // namespace v1
}  // namespace dlaunch
