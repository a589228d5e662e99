// Waits for messages that are on their way.
//
// A Transport's messages can only be waited for one by one. Those that go one way between this rank and a
// peer come through in the order in which they were begun, since they share a connection; those of different
// ways have nothing to do with each other. So each way has a queue, and as many threads wait as there are
// ways with something on them: one that is stuck, with a peer that stands still, holds up only what is behind
// it there. What has become too late there is ended all the same.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "dlaunch/transport.h"
#include "runtime/point_to_point/deadline_queue.h"

namespace dlaunch {

// Any thread may call. A thread is started when one is needed, and ends when it has had nothing to do for
// `idle_limit`.
class Transfers {
 public:
  struct Route {
    int peer;
    bool outgoing;
    bool operator<(const Route& other) const {
      return std::tie(peer, outgoing) < std::tie(other.peer, other.outgoing);
    }
  };

  struct Message {
    Route route;
    Deadline deadline;
    // Called once: with null when the message is through, else with the reason why it is not. The transfer is
    // gone then. Must not throw or call back.
    std::function<void(const std::exception_ptr& error)> ended;
    std::unique_ptr<Transfer> transfer;
  };

  static constexpr std::chrono::milliseconds idle_limit{1000};

  Transfers() = default;
  ~Transfers();  // waits for what there is
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  // Returns at once. Whether it stands behind another, so that expire() is to be called at its deadline.
  bool add(Message message);

  // Of those that stand behind another.
  Deadline next_deadline();
  // Ends those of them whose deadline has passed.
  void expire();

  [[nodiscard]] bool is_idle();  // nothing is on its way
  // Returns when nothing is on its way, or the deadline has passed; which of the two.
  bool drain(Deadline deadline);

 private:
  struct Queue;
  struct Queued {
    Message message;
    Queue* queue;
    std::list<Queued>::iterator place;
    DeadlineQueue<Queued*>::Entry expiry;
  };
  struct Queue {
    std::list<Queued> messages;  // nobody waits for them yet
    bool attended = false;       // a thread waits for the one before them, or will soon
  };

  void work();
  void start_thread_for_work();
  void attend(Queue& queue, std::unique_lock<std::mutex>& lock);
  Message take(Queued& queued);

  std::mutex mutex_;
  std::condition_variable added_;
  std::condition_variable drained_;
  // protected by mutex_
  std::map<Route, Queue> queues_;
  DeadlineQueue<Queued*> deadlines_;
  std::deque<Queue*> unattended_;  // which the next free threads take
  std::size_t free_threads_ = 0;
  std::size_t unfinished_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
  std::vector<std::thread::id> ended_;  // of them: those that do nothing more
};

}  // namespace dlaunch
