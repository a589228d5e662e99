#include "runtime/rpc/link.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include "runtime/base/deadline.h"

namespace dlaunch::internal {

namespace {

void change(int poll, int fd, std::uint64_t token, std::uint32_t events, int how) {
  epoll_event event{};
  event.events = events | EPOLLRDHUP | EPOLLET;
  event.data.u64 = token;
  epoll_ctl(poll, how, fd, &event);
}

}  // namespace

void Link::watch() {
  const std::lock_guard lock(write_mutex_);
  change(poll_, socket_.get(), token_, waits_for_room_ ? EPOLLIN | EPOLLOUT : EPOLLIN, EPOLL_CTL_ADD);
}

bool Link::send(RpcMessage message) {
  const std::lock_guard lock(write_mutex_);
  queue_.push(std::move(message));
  if (!waits_for_room_) write();
  return queue_.is_empty();
}

bool Link::on_writable() {
  const std::lock_guard lock(write_mutex_);
  if (!std::exchange(waits_for_room_, false)) return false;
  write();
  if (!waits_for_room_) change(poll_, socket_.get(), token_, EPOLLIN, EPOLL_CTL_MOD);
  return queue_.is_empty();
}

// The kernel reports room only to those that ask: a Unix socket would report it after each message.
void Link::write() {
  std::array<std::span<const std::byte>, 64> places;
  std::array<iovec, 64> pieces;
  while (!broken_ && !queue_.is_empty()) {
    std::size_t count = 0;
    for (const auto piece : queue_.next(places)) {
      pieces[count++] = {const_cast<std::byte*>(piece.data()), piece.size()};
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      waits_for_room_ = true;
      return change(poll_, socket_.get(), token_, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
    }
    if (sent < 0) {
      broken_ = true;
      shutdown(socket_.get(), SHUT_RDWR);  // the reader finds the end
      return;
    }
    queue_.advance(static_cast<std::size_t>(sent));
  }
}

void Link::read(bool hung_up, const Handler& handler) {
  if (hung_up) hung_up_ = true;
  if (read_requests_.fetch_add(1) > 0) return;
  for (int seen = 1; seen > 0;) {
    if (!ended_) read_all(handler);
    seen = read_requests_.fetch_sub(seen) - seen;
  }
}

void Link::read_all(const Handler& handler) {
  for (bool is_empty = false; !is_empty;) {
    std::vector<RpcMessage> messages;
    const std::optional<std::string> why = read_some(messages, is_empty);
    if (!messages.empty()) handler.on_messages(messages);
    if (!why) continue;
    ended_ = true;
    return handler.on_end(*why);
  }
}

// After a read of less than there was space for, the socket was empty: the epoll reports what comes later.
// Only an end that it has reported already must be read.
std::optional<std::string> Link::read_some(std::vector<RpcMessage>& messages, bool& is_empty) {
  const MessageReader::Space space = reader_.space();
  std::array<iovec, 2> pieces{
      {{space.direct.data(), space.direct.size()}, {space.buffer.data(), space.buffer.size()}}};
  msghdr message{};
  message.msg_iov = space.direct.empty() ? &pieces[1] : pieces.data();
  message.msg_iovlen = space.direct.empty() ? 1 : 2;
  const ssize_t got = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    is_empty = true;
    return reader_.advance(0, messages);
  }
  if (got < 0 && errno == EINTR) return reader_.advance(0, messages);
  if (got < 0) return std::generic_category().message(errno);
  if (got == 0) return "the connection was closed";
  is_empty = static_cast<std::size_t>(got) < space.size() && !hung_up_;
  return reader_.advance(static_cast<std::size_t>(got), messages);
}

void Link::end() { shutdown(socket_.get(), SHUT_RDWR); }

std::unordered_set<std::uint64_t> Link::withdraw(std::span<const std::uint64_t> numbers) {
  const std::lock_guard lock(write_mutex_);
  return queue_.withdraw(numbers);
}

std::unordered_set<std::uint64_t> Link::untouched() const {
  const std::lock_guard lock(write_mutex_);
  return queue_.untouched();
}

void Link::flush(Deadline deadline) {
  for (;;) {
    {
      const std::lock_guard lock(write_mutex_);
      write();
      if (queue_.is_empty() || broken_) return;
    }
    pollfd room{socket_.get(), POLLOUT, 0};
    if (::poll(&room, 1, static_cast<int>(time_left(deadline).count())) <= 0 && has_passed(deadline)) return;
  }
}

}  // namespace dlaunch::internal
