#include "runtime/rpc/stripe_threads.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/start_thread.h"
#include "runtime/shared_memory/processors.h"

namespace dlaunch::internal {

namespace {

Descriptor opened(Descriptor descriptor) {
  if (descriptor.is_open()) return descriptor;
  throw DistBackendError("cannot watch more connections: " + std::generic_category().message(errno));
}

}  // namespace

StripeThreads::StripeThreads()
    : poll_(opened(Descriptor([] { return epoll_create1(EPOLL_CLOEXEC); }))),
      wakeup_(opened(Descriptor([] { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }))) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = own_token;
  epoll_ctl(poll_.get(), EPOLL_CTL_ADD, wakeup_.get(), &event);
}

std::uint64_t StripeThreads::add(int fd, std::shared_ptr<Connection> connection) {
  const std::lock_guard lock(mutex_);
  if (threads_ == 0) start();
  const std::uint64_t token = ++last_token_;
  connections_.emplace(token, std::move(connection));
  epoll_event event{};
  event.events = EPOLLONESHOT;
  event.data.u64 = token;
  epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event);
  return token;
}

// REQUIRES: mutex_ is held.
void StripeThreads::start() {
  const std::size_t wanted = std::clamp(usable_processors(), std::size_t{1}, most_threads);
  for (; threads_ < wanted; ++threads_) {
    try {
      start_thread([self = shared_from_this()] { self->run(); }).detach();
    } catch (const DistBackendError&) {
      if (threads_ == 0) throw;
      return;  // those that there are do the work
    }
  }
}

void StripeThreads::watch(int fd, std::uint64_t token, bool for_room) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT;
  if (for_room) event.events |= EPOLLOUT;
  event.data.u64 = token;
  epoll_ctl(poll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void StripeThreads::remove(std::uint64_t token) {
  std::shared_ptr<Connection> removed;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  const auto at = connections_.find(token);
  if (at == connections_.end()) return;
  removed = std::move(at->second);
  connections_.erase(at);
}

std::shared_ptr<StripeThreads::Connection> StripeThreads::find(std::uint64_t token) {
  const std::lock_guard lock(mutex_);
  const auto at = connections_.find(token);
  return stopping_ || at == connections_.end() ? nullptr : at->second;
}

void StripeThreads::run() {
  for (;;) {
    epoll_event event{};
    const int count = epoll_wait(poll_.get(), &event, 1, -1);
    if (count == 1 && event.data.u64 == own_token) break;  // for all threads
    if (count < 1) continue;
    if (const auto connection = find(event.data.u64)) connection->on_event();
  }
  const std::lock_guard lock(mutex_);
  if (--threads_ == 0) ended_.notify_all();
}

bool StripeThreads::stop(Deadline deadline) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  eventfd_write(wakeup_.get(), 1);
  return ended_.wait_until(lock, deadline, [&] { return threads_ == 0; });
}

}  // namespace dlaunch::internal
