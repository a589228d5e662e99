#include "runtime/point_to_point/transfers.h"

#include <algorithm>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/base/start_thread.h"

namespace dlaunch::internal {

namespace {

// The error; null if the message has arrived.
std::exception_ptr error_of_waiting(Transfer& transfer, Deadline deadline) {
  try {
    transfer.wait(deadline);
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

// Releases the memory first: the callback's receiver may reuse it.
void end(Transfers::Message message, const std::exception_ptr& error) {
  message.transfer.reset();
  message.ended(error);
}

}  // namespace

Transfers::~Transfers() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    added_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

bool Transfers::add(Message message) {
  const std::lock_guard lock(mutex_);
  Queue& queue = queues_[message.route];
  const Deadline deadline = message.deadline;
  Queued& queued = queue.messages.emplace_back(Queued{std::move(message), &queue, {}, {}});
  queued.place = std::prev(queue.messages.end());
  queued.expiry = deadlines_.add(deadline, &queued);
  ++unfinished_;
  if (std::exchange(queue.attended, true)) return true;
  unattended_.push_back(&queue);
  if (free_threads_ < unattended_.size()) start_thread_for_work();
  added_.notify_one();
  return false;
}

// With mutex_ held. Ended threads held it in their last step, so joining them takes no time.
void Transfers::start_thread_for_work() {
  for (const std::thread::id id : std::exchange(ended_, {})) {
    const auto ended = std::ranges::find(threads_, id, &std::thread::get_id);
    ended->join();
    threads_.erase(ended);
  }
  threads_.push_back(start_thread([this] { work(); }));
  ++free_threads_;
}

bool Transfers::is_idle() {
  const std::lock_guard lock(mutex_);
  return unfinished_ == 0;
}

Deadline Transfers::next_deadline() {
  const std::lock_guard lock(mutex_);
  return deadlines_.next();
}

void Transfers::expire() {
  std::vector<Message> late;
  {
    const std::lock_guard lock(mutex_);
    const Deadline now = std::chrono::steady_clock::now();
    while (const std::optional<Queued*> queued = deadlines_.passed(now)) late.push_back(take(**queued));
  }
  if (late.empty()) return;
  const std::size_t count = late.size();
  for (Message& message : late) {
    const Route route = message.route;
    end(std::move(message), std::make_exception_ptr(late_error(route.peer, route.outgoing)));
  }
  const std::lock_guard lock(mutex_);
  unfinished_ -= count;
  if (unfinished_ == 0) drained_.notify_all();
}

bool Transfers::drain(Deadline deadline) {
  std::unique_lock lock(mutex_);
  return drained_.wait_until(lock, deadline, [this] { return unfinished_ == 0; });
}

void Transfers::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    added_.wait_for(lock, idle_limit, [this] { return ending_ || !unattended_.empty(); });
    if (unattended_.empty()) {
      --free_threads_;
      ended_.push_back(std::this_thread::get_id());
      return;
    }
    Queue& queue = *unattended_.front();
    unattended_.pop_front();
    --free_threads_;
    attend(queue, lock);
    ++free_threads_;
  }
}

// With `lock` held on the mutex.
void Transfers::attend(Queue& queue, std::unique_lock<std::mutex>& lock) {
  while (!queue.messages.empty()) {
    Message message = take(queue.messages.front());
    lock.unlock();
    const std::exception_ptr error = error_of_waiting(*message.transfer, message.deadline);
    end(std::move(message), error);
    lock.lock();
    if (--unfinished_ == 0) drained_.notify_all();
  }
  queue.attended = false;
}

// Removes it from its queue. With mutex_ held.
Transfers::Message Transfers::take(Queued& queued) {
  Message message = std::move(queued.message);
  deadlines_.remove(queued.expiry);
  queued.queue->messages.erase(queued.place);
  return message;
}

}  // namespace dlaunch::internal
