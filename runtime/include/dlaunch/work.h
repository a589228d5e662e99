// An operation that was started.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <memory>

#include "dlaunch/export.h"

namespace dlaunch {
namespace internal {
class GroupImpl;
}
inline namespace v1 {

// In place of a rank to receive from: the rank that sends first.
inline constexpr int any_source = -1;

// A handle; copies refer to the same operation. It completes exactly once, with success or
// with an error, at the latest shortly after the operation's deadline. A default-constructed
// Work is already complete. Dropping every handle neither cancels the operation nor waits for it. If no call
// waited for a failed operation, the group's next call throws its error, and the error is logged as a
// warning, once if one cause ends several operations.
//
// An operation on CUDA tensors runs on a stream of the GPU, and the host goes on: wait() makes the calling
// thread's current stream (stream.h) wait for it, as in torch.distributed, and is_completed() and
// is_success() report that it has been started and ordered so. (Of a backend other than nccl the copies run
// on a stream: wait() returns when the last one is in it.) then(), get_future(), synchronize() and a wait()
// with a timeout are about the end on the device. The tensor's memory must stay valid until then, or be freed
// in an order of streams. With the environment variable TORCH_NCCL_BLOCKING_WAIT=1 (or NCCL_BLOCKING_WAIT=1)
// all members are about the end on the device, and wait() blocks.
//
// For `dlaunch --hang-timeout` a message counts as waiting during wait(), after then() or get_future(), and
// while the program polls it (is_completed() and the like, or a short wait()). A receive that was posted in
// advance and is not polled does not count.
//
// While the current stream is captured into a CUDA graph, an operation becomes a part of the graph: wait()
// makes the stream wait for it, and for all other members it has ended.
//
// All members may be called from several threads at once.
class DLAUNCH_EXPORT Work {
 public:
  Work() = default;

  // Returns when the operation has succeeded; throws its DistError if it has
  // failed. Every call does so, not only the first. If it runs on a stream: see above.
  void wait() const;

  // Returns when the operation has succeeded, also if it runs on a stream; throws its DistError.
  void synchronize() const;

  // If the operation runs on a stream, and has not failed: makes this thread's current stream wait for it,
  // and returns true; also if it has succeeded. Otherwise false: only synchronize() can wait for it. Does not
  // block.
  [[nodiscard]] bool order_stream() const;

  // wait(), but throws DistError if the operation has not completed within
  // `timeout`. The operation goes on.
  void wait(std::chrono::milliseconds timeout) const;

  [[nodiscard]] bool is_completed() const;  // success or error
  [[nodiscard]] bool is_success() const;    // completed without an error

  // Whether the operation runs, or ran, on a stream.
  [[nodiscard]] bool is_on_stream() const;
  // Whether it has become a part of a CUDA graph.
  [[nodiscard]] bool is_captured() const;
  // Success or error, also on the device.
  [[nodiscard]] bool has_ended() const;

  // Why it failed; null while it runs and after a success.
  [[nodiscard]] std::exception_ptr exception() const;

  // Of a receive that has succeeded: the rank in the group that sent the message; else -1.
  [[nodiscard]] int source_rank() const;

  // Calls `callback` once: when the operation ends, on the thread that ends it, in the order of these calls;
  // or at once on this thread if it has ended already. For all other threads the operation completes when the
  // callbacks have returned and are destroyed: until then wait() blocks, so a callback may refer to objects
  // of the waiting thread. Inside a callback is_completed() is already true for every finished operation. A
  // callback must not block (nor lock what a waiting thread has locked), throw, or start an operation.
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
  // Of an operation that runs on a stream. `order` makes the calling thread's current stream wait for its
  // end; false: it cannot any more. It must not block or throw, and any thread may call it as long as a Work
  // exists.
  explicit WorkSource(std::function<bool()> order);
  // The same while the stream is captured into a CUDA graph: the operation runs when the graph does, and has
  // no end of its own. It succeeds at once, and a wait still calls `order`.
  static WorkSource of_captured(std::function<bool()> order);
  // Of an operation on a stream that a device has in its queue, with `order` as above: the backend calls
  // begin() when the device comes to it.
  static WorkSource of_queued(std::function<bool()> order);

  [[nodiscard]] Work work() const;

  // The device has come to the operation. Any thread, before the end, at most once.
  void begin() const;

  // Exactly one of these ends the operation; later calls do nothing. Callbacks run before the call returns.
  void succeed() const;
  void succeed_from(int source_rank) const;  // a receive
  void fail(std::exception_ptr reason) const;
  // The same if another operation has reported the cause already: no warning if no call waits for it.
  void fail_silently(std::exception_ptr reason) const;

 private:
  friend class internal::GroupImpl;
  explicit WorkSource(std::shared_ptr<Work::State> state);
  static WorkSource of_message(std::function<bool()> order, bool is_captured);
  static bool is_default(const Work& work) { return work.state_ == nullptr; }
  // Whether nothing is left to wait for, not even on a stream.
  static bool has_succeeded(const Work& work);
  // Whether it is of_queued().
  static bool is_queued(const Work& work);
  // At once if the device has come to it already; not at all if the operation ends before that is seen. The
  // callback is destroyed with the Work. REQUIRES: is_queued().
  static void when_begun(const Work& work, std::function<void()> callback);
  // As Work::then(), but the first one of a Work runs before the callbacks of that, and is destroyed with the
  // Work: memory that one thread allocates and another one frees costs both locks.
  static void when_ended(const Work& work, std::function<void(const Work&)> callback);

  std::shared_ptr<Work::State> state_;
};

}  // namespace v1
}  // namespace dlaunch
