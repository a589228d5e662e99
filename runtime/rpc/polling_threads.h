// The threads of remote calls: each handles what the connections report, and runs the program's functions.
//
// All threads wait at one epoll, so that the thread that reads a call also runs its function: no other thread
// is woken. At least one thread never runs functions of the program, so messages travel however long these
// take, and functions may wait for the answers to calls of their own. Threads are started when they are
// needed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/sockets/descriptor.h"

namespace dlaunch::internal {

// Any thread.
class PollingThreads : public std::enable_shared_from_this<PollingThreads> {
 public:
  using Task = std::function<void()>;
  // What happens at the descriptors in the epoll. It does not block, and throws nothing.
  using OnEvent = std::function<void(std::uint64_t token, std::uint32_t events)>;

  // Token of this class's own descriptor; others are higher.
  static constexpr std::uint64_t own_token = 0;

  // At most `most_tasks` tasks run at a time. Throws DistBackendError.
  explicit PollingThreads(int most_tasks);
  PollingThreads(const PollingThreads&) = delete;
  PollingThreads& operator=(const PollingThreads&) = delete;

  [[nodiscard]] int poll() const { return poll_.get(); }
  // Starts the first thread; `on_event` lives until all have ended. Throws DistBackendError.
  void start(OnEvent on_event);

  // Runs the tasks, which throw nothing, in this order or at the same time. After stop() they are dropped.
  void post(Task task);
  void post(std::vector<Task> tasks);

  // No task begins any more. Returns when all threads have ended; those that still run a task at the deadline
  // end after it. Returns false then.
  bool stop(Deadline deadline);

  // Whether this is one of the threads, of any such object.
  static bool is_one_of_them();

 private:
  void run();
  void run_task(std::unique_lock<std::mutex>& lock);
  void wait_for_events(std::unique_lock<std::mutex>& lock);
  void start_thread_if_needed();
  void wake_another();

  const Descriptor poll_;
  const Descriptor wakeup_;
  const int most_tasks_;
  OnEvent on_event_;

  std::mutex mutex_;
  std::condition_variable ended_;
  // protected by mutex_
  std::deque<Task> tasks_;
  int threads_ = 0;
  int running_ = 0;  // threads that run a task
  int idle_ = 0;     // threads that wait
  bool stopping_ = false;
};

}  // namespace dlaunch::internal
