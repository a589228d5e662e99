#include "runtime/rpc/link.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/shared_memory/futex.h"
#include "runtime/shared_memory/segment.h"

namespace dlaunch::internal {

namespace {

void change(int poll, int fd, std::uint64_t token, std::uint32_t events, int how) {
  epoll_event event{};
  event.events = events | EPOLLRDHUP | EPOLLET;
  event.data.u64 = token;
  epoll_ctl(poll, how, fd, &event);
}

}  // namespace

Link::~Link() {
  if (owned_sides_) owned_sides_->end();
}

void Link::use(std::unique_ptr<SharedRings> shared) {
  const std::lock_guard lock(write_mutex_);
  shared_ = std::move(shared);
  change(poll_, shared_->own_event.get(), token_, EPOLLIN, EPOLL_CTL_ADD);
  rings_.store(shared_->rings.get(), std::memory_order_release);
  if (std::exchange(is_looked_at_socket_, false)) report_events();
}

void Link::watch() {
  const std::lock_guard lock(write_mutex_);
  const bool for_room = waits_for_room_ && !shares_memory();
  change(poll_, socket_.get(), token_, for_room ? EPOLLIN | EPOLLOUT : EPOLLIN, EPOLL_CTL_ADD);
}

SideLinks& Link::sides() {
  const std::lock_guard lock(write_mutex_);
  if (!owned_sides_) {
    owned_sides_ = std::make_shared<SideLinks>();
    change(poll_, owned_sides_->ready(), token_, EPOLLIN, EPOLL_CTL_ADD);
    sides_.store(owned_sides_.get(), std::memory_order_release);
  }
  return *owned_sides_;
}

bool Link::has_lost_side() const {
  const SideLinks* const sides = sides_.load(std::memory_order_acquire);
  return sides != nullptr && sides->why_lost();
}

// --- Writing
// -----------------------------------------------------------------------------------------------------

bool Link::send(RpcMessage message) {
  const std::lock_guard lock(write_mutex_);
  if (owned_sides_ && owned_sides_->are_open() && message.body.size_of_blocks() >= striped_from)
    make_striped(message);
  if (may_send_at_once(message)) return send_at_once(std::move(message));
  queue_.push(std::move(message));
  if (!waits_for_room_ && (!is_held_ || queue_.size() >= most_held)) write();
  return queue_.is_empty();
}

// A short message that no other is before. REQUIRES: write_mutex_ is held, as of the next one.
bool Link::may_send_at_once(const RpcMessage& message) const {
  return message.body.blocks.empty() && message.body.front.size() <= SendQueue::short_message &&
         queue_.is_empty() && !waits_for_room_ && !broken_ && !is_held_;
}

// Without the queue, unless there is too little room. Returns whether all is sent.
bool Link::send_at_once(RpcMessage message) {
  const PartHead head = SendQueue::head_of(message);
  const std::array<std::span<const std::byte>, 2> pieces{std::as_bytes(std::span(&head, 1)),
                                                         std::as_bytes(std::span(message.body.front))};
  const std::size_t sent = write_some(pieces);
  if (sent == PartHead::size + head.length) return true;
  queue_.push_begun(std::move(message), sent);
  if (after_write()) write();
  return queue_.is_empty();
}

void Link::hold() {
  if (shares_memory()) return;
  const std::lock_guard lock(write_mutex_);
  is_held_ = true;
}

void Link::release() {
  if (!is_held_) return;
  const std::lock_guard lock(write_mutex_);
  is_held_ = false;
  if (!waits_for_room_) write();
}

bool Link::on_writable() {
  if (!waits_for_room_) return false;
  const std::lock_guard lock(write_mutex_);
  if (!waits_for_room_.exchange(false)) return false;
  write();
  if (!waits_for_room_ && !shares_memory()) report_events();
  return queue_.is_empty();
}

// What the epoll is to report. The kernel reports room only to those that ask: a Unix socket would report it
// after each message. REQUIRES: write_mutex_ is held.
void Link::report_events() {
  const std::uint32_t in = is_looked_at_socket_ ? 0U : std::uint32_t{EPOLLIN};
  const std::uint32_t out = waits_for_room_ ? std::uint32_t{EPOLLOUT} : 0U;
  change(poll_, socket_.get(), token_, in | out, EPOLL_CTL_MOD);
}

// REQUIRES: write_mutex_ is held, as of the next two.
void Link::write() {
  std::array<std::span<const std::byte>, 64> places;
  while (!broken_ && !queue_.is_empty()) {
    queue_.advance(write_some(queue_.next(places)));
    if (queue_.has_striped()) {
      for (RpcMessage& striped : queue_.take_striped()) owned_sides_->send(std::move(striped));
    }
    if (!after_write()) return;
  }
}

// How many bytes the other side gets. Sets waits_for_room_ if it takes no more now.
std::size_t Link::write_some(std::span<const std::span<const std::byte>> pieces) {
  ByteRings* const way = rings();
  if (!way) return send_some(pieces);
  if (const std::optional<std::size_t> put = put_some(*way, pieces)) return *put;
  break_off();
  return 0;
}

// Whether more can be written now.
bool Link::after_write() {
  if (!waits_for_room_) return true;
  ByteRings* const way = rings();
  if (!way) {
    report_events();
    return false;
  }
  if (!way->await_room()) return false;
  waits_for_room_ = false;
  return true;
}

// How many bytes the kernel takes. Sets waits_for_room_ if it takes none now.
std::size_t Link::send_some(std::span<const std::span<const std::byte>> pieces) {
  std::array<iovec, 64> places;
  std::size_t count = 0;
  for (const auto piece : pieces) places[count++] = {const_cast<std::byte*>(piece.data()), piece.size()};
  msghdr message{};
  message.msg_iov = places.data();
  message.msg_iovlen = count;
  const ssize_t sent = sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    waits_for_room_ = true;
  } else if (errno != EINTR) {
    break_off();
  }
  return 0;
}

// The same; none: the other side has damaged the memory.
std::optional<std::size_t> Link::put_some(ByteRings& rings,
                                          std::span<const std::span<const std::byte>> pieces) {
  std::size_t size = 0;
  for (const auto piece : pieces) size += piece.size();
  const std::optional<std::size_t> put = rings.write(pieces);
  if (put && *put < size) waits_for_room_ = true;
  if (put && rings.wake_other()) wake_by_event();
  return put;
}

// The reader finds the end.
void Link::break_off() {
  broken_ = true;
  shutdown(socket_.get(), SHUT_RDWR);
}

void Link::wake_by_event() const { eventfd_write(shared_->other_event.get(), 1); }

// --- Reading
// -----------------------------------------------------------------------------------------------------

void Link::read(bool hung_up, const Handler& handler) {
  if (hung_up) hung_up_ = true;
  if (read_requests_.fetch_add(1) > 0) {
    // The thread that reads may sleep.
    if (ByteRings* const way = rings()) way->interrupt();
    return;
  }
  if (!ended_) read_all(handler);
  stop_reading(handler);
}

void Link::stop_reading(const Handler& handler) {
  for (int seen = 1; (seen = read_requests_.fetch_sub(seen) - seen) > 0;) {
    if (!ended_) read_all(handler);
  }
}

void Link::read_all(const Handler& handler) {
  for (bool is_empty = false; !is_empty;) {
    std::optional<std::string> why = read_some(arrived_, is_empty);
    finish_striped(arrived_, why);
    if (!arrived_.empty()) handler.on_messages(arrived_);
    arrived_.clear();
    if (arrived_.capacity() > most_kept) arrived_ = {};
    if (!why) continue;
    ended_ = true;
    return handler.on_end(*why);
  }
}

// Also those that were complete before the connection has ended.
void Link::finish_striped(std::vector<RpcMessage>& messages, std::optional<std::string>& why) {
  const auto is_striped = [](const RpcMessage& message) {
    return message.kind == PartHead::striped_request || message.kind == PartHead::striped_result;
  };
  SideLinks* const known = sides_.load(std::memory_order_acquire);
  if (!known && std::ranges::none_of(messages, is_striped)) return;
  SideLinks& all = known ? *known : sides();
  std::optional<std::string> wrong = all.complete(messages);
  if (!why) why = wrong ? std::move(wrong) : all.why_lost();
}

std::optional<std::string> Link::read_some(std::vector<RpcMessage>& messages, bool& is_empty) {
  if (offer_ != Offer::none) return read_offer(is_empty);
  if (ByteRings* const way = rings()) return read_rings(*way, messages, is_empty);
  return read_socket(messages, is_empty);
}

std::optional<std::string> Link::read_offer(bool& is_empty) {
  MemoryOffer offer = take_memory_offer(socket_.get(), offer_ == Offer::taken);
  if (!offer.has_come) {
    is_empty = errno == EAGAIN || errno == EWOULDBLOCK;
    return is_empty && !hung_up_ ? std::nullopt : std::optional<std::string>(connection_was_closed);
  }
  offer_ = Offer::none;
  if (offer.taken) use(std::move(offer.taken));
  return std::nullopt;
}

// After a read of less than there was space for, the socket was empty: the epoll reports what comes later.
// Only an end that it has reported already must be read.
std::optional<std::string> Link::read_socket(std::vector<RpcMessage>& messages, bool& is_empty) {
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
  if (got == 0) return connection_was_closed;
  is_empty = static_cast<std::size_t>(got) < space.size() && !hung_up_;
  return reader_.advance(static_cast<std::size_t>(got), messages);
}

// What the other process had written before it ended is read first.
std::optional<std::string> Link::read_rings(ByteRings& rings, std::vector<RpcMessage>& messages,
                                            bool& is_empty) {
  const bool hung_up = hung_up_;
  const MessageReader::Space space = reader_.space();
  std::size_t all = 0;
  for (const std::span<std::byte> place : {space.direct, space.buffer}) {
    const std::optional<std::size_t> got = rings.read(place);
    if (!got) return damaged_memory;
    all += *got;
    if (rings.wake_writer()) wake_by_event();
    if (*got < place.size()) break;
  }
  if (all == 0 && hung_up) return connection_was_closed;
  is_empty = all < space.size() && !hung_up;
  return reader_.advance(all, messages);
}

// --- Waiting
// -----------------------------------------------------------------------------------------------------

void Link::look() {
  if (ByteRings* const way = rings()) return way->look();
  look_at_socket(true);
}

// The epoll reports what is there already.
bool Link::stop_looking() {
  if (ByteRings* const way = rings()) return way->sleep_elsewhere();
  look_at_socket(false);
  return false;
}

void Link::look_at_socket(bool on) {
  const std::lock_guard lock(write_mutex_);
  if (std::exchange(is_looked_at_socket_, on) != on) report_events();
}

bool Link::has_something() const {
  const ByteRings* const way = rings();
  if (!way) return await_socket(std::chrono::milliseconds(0)) == POLLIN;  // an end is reported by the epoll
  return way->has_bytes() || (waits_for_room_ && way->has_room());
}

// Until there is something to read. Returns what poll() reports of the connection: without an end 0 or
// POLLIN.
short Link::await_socket(std::chrono::milliseconds limit) const {
  const SideLinks* const sides = sides_.load(std::memory_order_acquire);
  std::array<pollfd, 2> arrived{
      {{socket_.get(), POLLIN | POLLRDHUP, 0}, {sides ? sides->ready() : -1, POLLIN, 0}}};
  const int count = ::poll(arrived.data(), sides ? 2 : 1, static_cast<int>(limit.count()));
  if (count <= 0) return 0;
  return static_cast<short>(arrived[0].revents | arrived[1].revents);
}

void Link::drive(const Handler& handler, const Driving& driving) {
  int nobody = 0;
  if (!read_requests_.compare_exchange_strong(nobody, 1)) return;
  is_driven_ = true;
  drives_.store(drives_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (ByteRings* const way = rings()) {
    drive_rings(*way, handler, driving);
  } else {
    drive_socket(handler, driving);
  }
  is_driven_ = false;
  stop_reading(handler);
}

void Link::drive_rings(ByteRings& rings, const Handler& handler, const Driving& driving) {
  rings.look();
  const bool looks = driving.may_look && looking_pays_.next();
  bool has_slept = false;
  Deadline looks_end = std::chrono::steady_clock::now() + spin_limit;
  while (!ended_) {
    const bool has_some = has_something() || hung_up_;
    if (rings.has_bytes() || hung_up_) read_all(handler);
    if (on_writable()) handler.on_drained();
    if (driving.done()) break;
    const Deadline now = std::chrono::steady_clock::now();
    if (has_some) looks_end = now + spin_limit;
    if (looks && now < looks_end) {
      for (int i = 0; i < looks_per_clock && !has_something(); ++i) processor_pause();
      continue;
    }
    if (now >= driving.until) break;
    if (driving.may_look) rings.part_from_other();
    has_slept = true;
    rings.sleep_on_bell(driving.until);
  }
  if (looks) has_slept ? looking_pays_.found_nothing() : looking_pays_.found();
  if (!ended_ && driving.comes_back && driving.comes_back()) return;
  // What has come meanwhile is read once more.
  if (rings.sleep_elsewhere()) ++read_requests_;
}

void Link::drive_socket(const Handler& handler, const Driving& driving) {
  look_at_socket(true);
  const bool looks = driving.may_look && looking_pays_.next();
  bool has_slept = false;
  Deadline looks_end = std::chrono::steady_clock::now() + spin_limit;
  while (!ended_ && !driving.done()) {
    const Deadline now = std::chrono::steady_clock::now();
    const bool sleeps = !looks || now >= looks_end;
    if (sleeps && now >= driving.until) break;
    has_slept = has_slept || sleeps;
    const auto limit = sleeps ? std::min<std::chrono::milliseconds>(time_left(driving.until), sleep_limit)
                              : std::chrono::milliseconds(0);
    const short arrived = await_socket(limit);
    if (arrived == 0) continue;
    if ((arrived & (POLLRDHUP | POLLHUP | POLLERR)) != 0) hung_up_ = true;
    read_all(handler);
    looks_end = std::chrono::steady_clock::now() + spin_limit;
  }
  if (looks) has_slept ? looking_pays_.found_nothing() : looking_pays_.found();
  if (!ended_ && driving.comes_back && driving.comes_back()) return;
  look_at_socket(false);
}

// --- Ending
// ------------------------------------------------------------------------------------------------------

void Link::end() {
  hung_up_ = true;
  shutdown(socket_.get(), SHUT_RDWR);
  // The other side has the eventfd, too: it would stay in the epoll.
  if (shares_memory()) epoll_ctl(poll_, EPOLL_CTL_DEL, shared_->own_event.get(), nullptr);
  if (SideLinks* const sides = sides_.load(std::memory_order_acquire)) sides->end();
}

std::unordered_set<std::uint64_t> Link::withdraw(std::span<const std::uint64_t> numbers) {
  const std::lock_guard lock(write_mutex_);
  if (owned_sides_) owned_sides_->keep(numbers);
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
      waits_for_room_ = false;
      write();
      if (queue_.is_empty() || broken_ || (shares_memory() && hung_up_)) break;
    }
    if (shares_memory()) {
      ::poll(nullptr, 0, 1);
    } else {
      pollfd room{socket_.get(), POLLOUT, 0};
      ::poll(&room, 1, static_cast<int>(time_left(deadline).count()));
    }
    if (has_passed(deadline)) break;
  }
  if (SideLinks* const sides = sides_.load(std::memory_order_acquire)) sides->flush(deadline);
}

}  // namespace dlaunch::internal
