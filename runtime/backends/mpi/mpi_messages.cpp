#include "runtime/backends/mpi/mpi_messages.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "runtime/backends/mpi/mpi_error.h"
#include "runtime/backends/mpi/mpi_types.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/base/start_thread.h"

namespace dlaunch::internal {

namespace {

constexpr auto first_pause = std::chrono::microseconds(20);
constexpr auto longest_pause = std::chrono::microseconds(1000);

}  // namespace

MpiMessages::~MpiMessages() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    posted_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

// The owners of tags take turns: the program's, and the library's.
int MpiMessages::mpi_tag(Tag tag) const {
  constexpr Tag owners = 4;
  const Tag number = (tag & 0xffffffffU) * owners + (tag >> 32U);
  const auto largest = static_cast<Tag>(group_.largest_tag());
  if (number > largest) {
    throw DistBackendError("the tag " + std::to_string(tag & 0xffffffffU) +
                           " is too large for MPI here: at most " +
                           std::to_string((largest - owners + 1) / owners) + " is possible");
  }
  return static_cast<int>(number);
}

Work MpiMessages::send(const Tensor& tensor, int dst, Tag tag, const Operation& operation) {
  group_.check_now_and_then();
  Message message{true, dst, tensor.nbytes(), operation.deadline};
  const int number = mpi_tag(tag);
  {
    const MpiBytes what(tensor.nbytes());
    const MpiCallLock lock;
    require_mpi(
        MPI_Isend(tensor.data(), what.count(), what.type(), dst, number, group_.messages(), &message.request),
        "MPI_Isend");
  }
  return operation.async ? await_in_thread(message) : await(message);
}

Work MpiMessages::recv(const Tensor& tensor, int src, Tag tag, const Operation& operation) {
  group_.check_now_and_then();
  Message message{false, src, tensor.nbytes(), operation.deadline};
  const int number = mpi_tag(tag);
  {
    const MpiBytes what(tensor.nbytes());
    const MpiCallLock lock;
    require_mpi(MPI_Irecv(tensor.data(), what.count(), what.type(), src == any_source ? MPI_ANY_SOURCE : src,
                          number, group_.messages(), &message.request),
                "MPI_Irecv");
  }
  return operation.async ? await_in_thread(message) : await(message);
}

Work MpiMessages::await(Message& message) {
  const MpiUse use;
  MPI_Status status{};
  try {
    const char* const call = message.is_send ? "MPI_Isend" : "MPI_Irecv";
    if (!group_.complete_soon({&message.request, 1}, {&status, 1}, message.deadline, message.bytes, call)) {
      const MessageWait waiting;
      group_.complete_late({&message.request, 1}, {&status, 1}, message.deadline, call);
    }
  } catch (const DistNetworkError&) {
    MpiUse::leave_unfinished();
    if (message.peer == any_source || !has_passed(message.deadline)) throw;
    throw DistNetworkError(late_error(message.peer, message.is_send));
  }
  if (message.is_send) return {};
  check_length(message, status);
  const auto from = static_cast<std::size_t>(status.MPI_SOURCE);
  return from < received_from_.size() ? received_from_[from] : ended_receive(status.MPI_SOURCE);
}

Work MpiMessages::await_in_thread(const Message& message) {
  std::list<Asynchronous> one;
  one.emplace_back(message);
  Work work = one.front().source.work();
  const std::lock_guard lock(mutex_);
  if (!is_running_) {
    if (thread_.joinable()) thread_.join();  // it has found no work and is about to end
    thread_ = start_thread([this] { this->work(); });
    is_running_ = true;
  }
  new_ones_.splice(new_ones_.end(), one);
  ++unfinished_;
  posted_.notify_all();
  return work;
}

void MpiMessages::check_length(const Message& message, const MPI_Status& status) {
  const std::size_t received = received_bytes(status, message.bytes);
  if (received == message.bytes) return;
  throw DistNetworkError("rank " + std::to_string(status.MPI_SOURCE) + " sent " + std::to_string(received) +
                             " bytes, and the receive takes " + std::to_string(message.bytes),
                         {.peer = status.MPI_SOURCE});
}

// Returns true if the message has completed or failed.
bool MpiMessages::has_ended(Asynchronous& message) {
  try {
    int done = 0;
    MPI_Status status{};
    {
      const MpiCallLock lock;
      require_mpi(MPI_Test(&message.request, &done, &status), message.is_send ? "MPI_Isend" : "MPI_Irecv");
    }
    if (done != 0 && message.is_send) {
      message.source.succeed();
    } else if (done != 0) {
      check_length(message, status);
      message.source.succeed_from(status.MPI_SOURCE);
    }
    if (done != 0) return true;
    group_.check();
    if (!has_passed(message.deadline)) return false;
    throw DistNetworkError(late_error(message.peer, message.is_send));
  } catch (const DistError& e) {
    if (message.request != MPI_REQUEST_NULL) MpiUse::leave_unfinished();
    group_.break_up(e.what());
    message.source.fail(std::current_exception());
    return true;
  }
}

void MpiMessages::work() {
  constexpr auto idle_limit = std::chrono::milliseconds(1000);
  std::list<Asynchronous> running;
  auto pause = first_pause;
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto has_new = [this] { return ending_ || !new_ones_.empty(); };
    if (!running.empty()) {
      if (posted_.wait_for(lock, pause, [this] { return !new_ones_.empty(); })) pause = first_pause;
    } else if (!posted_.wait_for(lock, idle_limit, has_new) || new_ones_.empty()) {
      is_running_ = false;
      return;
    }
    running.splice(running.end(), new_ones_);
    lock.unlock();
    const std::size_t before = running.size();
    running.remove_if([this](Asynchronous& message) { return has_ended(message); });
    pause = running.size() < before ? first_pause : std::min(pause * 3 / 2, longest_pause);
    lock.lock();
    unfinished_ -= before - running.size();
    if (unfinished_ == 0) idle_.notify_all();
  }
}

bool MpiMessages::drain(Deadline deadline) {
  std::unique_lock lock(mutex_);
  return idle_.wait_until(lock, deadline, [this] { return unfinished_ == 0; });
}

}  // namespace dlaunch::internal
