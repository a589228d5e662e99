// The threads of remote calls: each handles what the connections report, and runs the program's functions.
//
// All threads wait at one epoll, so that the thread that reads a call also runs its function: no other thread
// is woken. At least one thread never runs functions of the program, so messages travel however long these
// take, and functions may wait for the answers to calls of their own. Threads are started when they are
// needed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/base/function_ref.h"
#include "runtime/base/task.h"
#include "runtime/sockets/descriptor.h"

namespace dlaunch::internal {

// Any thread.
class PollingThreads : public std::enable_shared_from_this<PollingThreads> {
 public:
  using Task = internal::Task;
  // What happens at the descriptors in the epoll. It does not block, and throws nothing.
  using OnEvent = std::function<void(std::uint64_t token, std::uint32_t events)>;

  // Called by a thread that would sleep: it may look for something else meanwhile, and returns at once when
  // it is_needed(). It throws nothing.
  using Look = std::function<void(const FunctionRef<bool()>& is_needed)>;

  // Token of this class's own descriptor; others are higher.
  static constexpr std::uint64_t own_token = 0;

  // At most `most_tasks` tasks run at a time. Throws DistBackendError.
  explicit PollingThreads(int most_tasks);
  PollingThreads(const PollingThreads&) = delete;
  PollingThreads& operator=(const PollingThreads&) = delete;

  [[nodiscard]] int poll() const { return poll_.get(); }
  // From now on there are events for bytes that arrive there.
  void watch(int fd, std::uint64_t token);
  // Starts the first thread; `on_event` and `look` live until all have ended. Throws DistBackendError.
  void start(OnEvent on_event, Look look = {});

  // Runs the tasks, which throw nothing, in this order or at the same time. After stop() they are dropped.
  // `are_short`: a thread that handles events runs them all itself, without waking others, which would take
  // longer. Then relieve() is to be called within a moment, if one of them takes long all the same.
  void post(Task task);
  void post(std::vector<Task> tasks, bool are_short = false);
  // The tasks that wait are short after all: the thread that takes the next ones takes all. From a task.
  void gather();
  // Tasks that wait behind one that has run since the last call get another thread; if several such threads
  // do not get on, or the tasks are not short, all that there are. Returns whether others wait: then it is to
  // be called again within a moment.
  bool relieve(bool are_short);

  // No task begins any more. Returns when all threads have ended; those that still run a task at the deadline
  // end after it. Returns false then.
  bool stop(Deadline deadline);

  // Whether this is one of the threads, of any such object.
  static bool is_one_of_them();

 private:
  // Tasks that one thread has taken.
  struct Batch {
    std::deque<Task> tasks;
    std::atomic<std::size_t> begun = 0;  // how many of them; all, if the others were taken back
    // For relieve():
    std::size_t begun_before = 0;
    int looked_at = 0;
    bool is_taken_back = false;
  };

  void run();
  void run_tasks(std::unique_lock<std::mutex>& lock);
  static void run_all(Batch& batch);
  static void take_back(Batch& batch, std::deque<Task>& to);
  void wait_for_events(std::unique_lock<std::mutex>& lock);
  void start_thread_if_needed();
  void wake_another();
  void look(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] bool is_needed() const { return stopping_ || (!tasks_.empty() && running_ < most_tasks_); }

  const Descriptor poll_;
  const Descriptor wakeup_;
  const int most_tasks_;
  OnEvent on_event_;
  Look look_;
  std::atomic<bool> thread_is_needed_ = false;  // is_needed() for those that do not hold mutex_

  std::mutex mutex_;
  std::condition_variable ended_;
  // protected by mutex_
  std::deque<Task> tasks_;
  std::vector<Batch*> batches_;
  std::uint64_t taken_ = 0;         // batches, ever
  std::uint64_t taken_before_ = 0;  // for relieve()
  int threads_ = 0;
  int running_ = 0;         // threads that run a task
  int idle_ = 0;            // threads that wait
  bool are_short_ = false;  // the tasks that were posted last
  bool stopping_ = false;
};

}  // namespace dlaunch::internal
