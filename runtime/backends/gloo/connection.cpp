#include "runtime/backends/gloo/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "runtime/base/deadline.h"

namespace dlaunch::internal {

namespace {

// After so many writes the sending thread leaves the rest to the endpoint's thread.
constexpr int turns_of_sender = 4;
// After so many reads or writes the endpoint's thread serves other connections.
constexpr int turns_of_endpoint = 16;
constexpr std::size_t places_at_once = 64;
// A thread that sends many short frames without an answer leaves them to the endpoint's thread, which writes
// many at once: separate writes wake the peer each time.
constexpr int written_at_once = 2;
// The sender writes longer frames: another copy costs more than the wakeup.
constexpr std::size_t short_enough_to_copy = std::size_t{12} * 1024;
// After a part, which the kernel copies to its destination, too little follows to read more.
constexpr std::size_t behind_a_part = 4096;

const std::byte* zeros() {
  static const std::array<std::byte, Frame::longest_part> bytes{};
  return bytes.data();
}

}  // namespace

Connection::Connection(FrameHandler& handler, Descriptor socket, ProcessId peer, std::uint64_t token)
    : handler_(handler),
      socket_(std::move(socket)),
      peer_(std::move(peer)),
      token_(token),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(buffer_size)) {}

// --- Writing -----------------------------------------------------------------------------------------------

void Connection::send(EndpointLock& lock, const Frame& frame, std::span<const std::byte> bytes) {
  if (lost_) return;
  queue_.push_back({.header = frame.bytes(), .data = bytes.data(), .length = bytes.size()});
  Item& item = queue_.back();
  if (!is_writing_ && !awaits_room_) {
    if (unanswered_++ < written_at_once || bytes.size() > short_enough_to_copy) {
      borrowed_ = &item;
      write_turns(lock, turns_of_sender);
      if (std::exchange(borrowed_, nullptr) == nullptr) return;
    } else {
      leave_to_endpoint();
    }
  }
  item.copy.assign(bytes.begin(), bytes.end());
  item.data = item.copy.data();
}

void Connection::send(EndpointLock& lock, const std::shared_ptr<Outgoing>& message) {
  if (lost_) return;
  message->under_way = true;
  messages_.push_back(message);
  if (!is_writing_ && !awaits_room_) write_turns(lock, turns_of_sender);
}

void Connection::queue(const Frame& frame, std::span<const std::byte> bytes) {
  if (lost_) return;
  queue_.push_back({.header = frame.bytes(), .length = bytes.size(), .copy = {bytes.begin(), bytes.end()}});
  queue_.back().data = queue_.back().copy.data();
  handler_.request_write(*this);
}

void Connection::queue(const std::shared_ptr<Outgoing>& message) {
  if (lost_) return;
  message->under_way = true;
  messages_.push_back(message);
  handler_.request_write(*this);
}

void Connection::leave_to_endpoint() {
  awaits_room_ = true;
  handler_.request_writable(*this, true);
}

void Connection::room_came() {
  if (std::exchange(awaits_room_, false)) handler_.request_writable(*this, false);
}

void Connection::write(EndpointLock& lock) {
  if (!is_writing_ && !awaits_room_) write_turns(lock, turns_of_endpoint);
}

// REQUIRES: no other thread writes.
void Connection::write_turns(EndpointLock& lock, int turns) {
  const std::shared_ptr<Connection> itself = shared_from_this();
  is_writing_ = true;
  bool goes_on = true;
  for (; !lost_; --turns) {
    add_part();
    if (queue_.empty()) break;
    if (turns == 0 || !goes_on) {
      leave_to_endpoint();
      break;
    }
    goes_on = write_once(lock);
  }
  is_writing_ = false;
  if (lost_) drop_all();
}

// False: the kernel accepts no more now, or never.
bool Connection::write_once(EndpointLock& lock) {
  std::array<iovec, places_at_once> places;
  msghdr message{};
  message.msg_iov = places.data();
  message.msg_iovlen = gather(places);
  std::size_t wanted = 0;
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) wanted += places[i].iov_len;
  const std::shared_ptr<Outgoing> read = part_of_ && part_of_->memory ? part_of_ : nullptr;
  if (read) read->is_read = true;
  lock.unlock();
  const ssize_t written = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  lock.lock();
  if (read) {
    read->is_read = false;
    if (!read->memory) handler_.on_memory_released();
  }
  // The endpoint's thread learns the reason when it reads.
  if (written <= 0 || lost_) return false;
  consume(static_cast<std::size_t>(written));
  return static_cast<std::size_t>(written) == wanted;
}

// One part of one message at a time, so that short frames do not wait for long.
void Connection::add_part() {
  if (part_of_ || messages_.empty()) return;
  part_of_ = std::move(messages_.front());
  messages_.pop_front();
  Outgoing& message = *part_of_;
  Frame frame = message.head;
  frame.kind = Frame::done;
  Item item{.header = {}, .message = part_of_, .offset = message.queued, .end = frame.bytes()};
  // A message without memory ends at once.
  item.length = message.memory ? std::min(Frame::longest_part, message.size - message.queued) : 0;
  frame.kind = Frame::data;
  frame.length = static_cast<std::uint32_t>(item.length);
  item.header = frame.bytes();
  message.queued += item.length;
  item.is_last = message.queued == message.size || !message.memory;
  queue_.push_back(std::move(item));
}

std::size_t Connection::gather(std::span<iovec> places) {
  std::size_t count = 0;
  std::size_t skipped = front_written_;
  const auto add = [&](const std::byte* data, std::size_t length) {
    const std::size_t skip = std::min(skipped, length);
    skipped -= skip;
    if (skip < length) places[count++] = {const_cast<std::byte*>(data) + skip, length - skip};
  };
  for (Item& item : queue_) {
    if (count + 3 > places.size()) break;
    add(item.header.data(), item.header.size());
    const std::byte* data = item.data;
    if (item.message) data = item.message->memory ? item.message->memory + item.offset : zeros();
    add(data, item.length);
    if (!item.is_last) continue;
    if (!item.message->memory && skipped == 0) {
      Frame frame = item.message->head;
      frame.kind = Frame::dropped;
      item.end = frame.bytes();
    }
    add(item.end.data(), item.end.size());
  }
  return count;
}

void Connection::consume(std::size_t written) {
  while (written > 0) {
    Item& item = queue_.front();
    const std::size_t step = std::min(written, item.size() - front_written_);
    written -= step;
    front_written_ += step;
    if (front_written_ < item.size()) return;
    front_written_ = 0;
    if (item.message && item.is_last) {
      item.message->done = true;
      item.message->wakeup.wake();
      part_of_.reset();
    } else if (item.message) {
      put_back(std::exchange(part_of_, nullptr));
    }
    if (borrowed_ == &item) borrowed_ = nullptr;
    queue_.pop_front();
  }
}

// After the other frames, but before the frames of the same slot, which must arrive after it.
void Connection::put_back(std::shared_ptr<Outgoing> message) {
  const Frame& head = message->head;
  const auto follows = std::ranges::find_if(messages_, [&](const std::shared_ptr<Outgoing>& other) {
    return other->head.context_id == head.context_id && other->head.rank == head.rank &&
           other->head.number == head.number;
  });
  messages_.insert(follows, std::move(message));
}

void Connection::mark_lost() {
  lost_ = true;
  shutdown(socket_.get(), SHUT_RDWR);
  target_.reset();
  if (!is_writing_) drop_all();
}

void Connection::drop_all() {
  queue_.clear();
  messages_.clear();
  part_of_.reset();
  borrowed_ = nullptr;
}

void Connection::write_at_once(EndpointLock& lock) {
  if (lost_ || is_writing_) return;
  room_came();
  write_turns(lock, turns_of_endpoint);
}

void Connection::flush(EndpointLock& lock, Deadline limit) {
  while (!lost_ && !queue_.empty() && !has_passed(limit)) {
    pollfd room{socket_.get(), POLLOUT, 0};
    write_at_once(lock);
    lock.unlock();
    poll(&room, 1, 1);
    lock.lock();
  }
}

// --- Reading -----------------------------------------------------------------------------------------------

std::optional<std::string> Connection::read(EndpointLock& lock) {
  for (int turn = 0; turn < turns_of_endpoint && !lost_; ++turn) {
    const std::shared_ptr<Incoming> target = target_ && target_->memory ? target_ : nullptr;
    std::array<iovec, 2> places{};
    msghdr message{};
    message.msg_iov = places.data();
    std::size_t to_place = 0;
    std::size_t room = buffer_size - end_;
    if (target) {  // the buffer is empty then
      to_place = missing_;
      room = behind_a_part;
      target->is_written = true;
      places[message.msg_iovlen++] = {target->memory + target->received, to_place};
    }
    places[message.msg_iovlen++] = {buffer_.get() + end_, room};
    lock.unlock();
    const ssize_t got = recvmsg(socket_.get(), &message, MSG_DONTWAIT);
    const int error = errno;
    lock.lock();
    if (target) {
      target->is_written = false;
      if (!target->memory) handler_.on_memory_released();
    }
    if (lost_) return std::nullopt;
    if (got == 0) return "the peer closed it";
    if (got < 0 && (error == EAGAIN || error == EWOULDBLOCK)) return std::nullopt;
    if (got < 0 && error == EINTR) continue;
    if (got < 0) return std::generic_category().message(error);
    unanswered_ = 0;
    const std::size_t count = static_cast<std::size_t>(got);
    const std::size_t placed = std::min(count, to_place);
    missing_ -= placed;
    if (target) target->received += placed;
    end_ += count - placed;
    if (!parse()) return "it sent bytes that are no frame of this version of libdlaunch";
    if (count < to_place + room) return std::nullopt;
  }
  return std::nullopt;
}

// Handles whole frames, and what has come of a message's part. False: not a frame.
bool Connection::parse() {
  for (;;) {
    if (missing_ > 0) {
      const std::size_t step = std::min(missing_, end_ - begin_);
      if (target_ && target_->memory && step > 0) {
        std::memcpy(target_->memory + target_->received, buffer_.get() + begin_, step);
        target_->received += step;
      }
      missing_ -= step;
      begin_ += step;
      if (missing_ > 0) break;
    }
    target_.reset();
    if (end_ - begin_ < Frame::size) break;
    const std::span<const std::byte, Frame::size> header(buffer_.get() + begin_, Frame::size);
    const std::optional<Frame> frame = Frame::parse(header);
    if (!frame) return false;
    if (frame->kind == Frame::data) {
      begin_ += Frame::size;
      missing_ = frame->length;
      target_ = handler_.find_receive(*this, *frame);
      if (lost_) return true;
      continue;
    }
    if (end_ - begin_ < Frame::size + frame->length) break;
    handler_.on_frame(*this, *frame, {buffer_.get() + begin_ + Frame::size, frame->length});
    if (lost_) return true;
    begin_ += Frame::size + frame->length;
  }
  if (begin_ > 0) std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  end_ -= std::exchange(begin_, 0);
  return true;
}

bool Connection::is_silent() {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (lost_ || getsockopt(socket_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  return keepalive_.check(info);
}

}  // namespace dlaunch::internal
