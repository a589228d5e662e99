// Waits for messages under way.
//
// A Transport's messages can only be waited for one by one. The messages of one route (from this rank to a
// peer, or back) arrive in the order of their start, since they share a connection; different routes are
// independent. So each route has a queue, and each route in use has one waiting thread: a route whose peer is
// stopped blocks only its own queue. A message there still ends at its deadline.
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
#include "runtime/base/deadline_queue.h"

namespace dlaunch::internal {

// Any thread may call. A thread starts when it is needed, and ends after `idle_limit` without work.
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
    // Called once: with null when the message has arrived, else with the error. The transfer is gone then.
    // Must not throw or call back.
    std::function<void(const std::exception_ptr& error)> ended;
    std::unique_ptr<Transfer> transfer;
  };

  static constexpr std::chrono::milliseconds idle_limit{1000};

  Transfers() = default;
  ~Transfers();  // waits for all messages
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  // Returns at once. True: it is queued behind another message, so call expire() at its deadline.
  bool add(Message message);

  // The earliest deadline of those behind another message.
  Deadline next_deadline();
  // Ends those of them whose deadline has passed.
  void expire();

  [[nodiscard]] bool is_idle();  // no message is under way
  // Returns when no message is under way, or the deadline has passed. False: the deadline has passed.
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
    std::list<Queued> messages;  // no thread waits for them yet
    bool attended = false;       // a thread waits for the message before them, or will soon
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
  std::deque<Queue*> unattended_;  // for the next free threads
  std::size_t free_threads_ = 0;
  std::size_t unfinished_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
  std::vector<std::thread::id> ended_;  // those that have finished
};

}  // namespace dlaunch::internal
