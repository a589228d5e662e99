#include "runtime/backends/gloo/endpoint.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/base/start_thread.h"
#include "runtime/sockets/dial.h"
#include "runtime/sockets/host_socket.h"
#include "store/base/random.h"

namespace dlaunch::internal {

namespace {

constexpr std::uint64_t bell_token = 0;
constexpr std::uint64_t listener_token = 1;
constexpr std::uint64_t host_listener_token = 2;
constexpr std::uint64_t first_token = 3;

// At the end, queued frames (mostly answers to goodbyes) are written within this time.
constexpr auto flush_limit = std::chrono::milliseconds(200);
constexpr auto between_checks = std::chrono::milliseconds(200);
constexpr auto without_descriptors = std::chrono::milliseconds(50);

void watch(int poll, int fd, std::uint64_t token, std::uint32_t events, int how) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  epoll_ctl(poll, how, fd, &event);
}

bool has_bytes(int socket) {
  int bytes = 0;
  return ioctl(socket, FIONREAD, &bytes) == 0 && bytes > 0;
}

Descriptor checked(const char* what, const std::function<int()>& make) {
  Descriptor descriptor(make);
  if (!descriptor.is_open())
    throw DistBackendError(std::string("cannot make ") + what + ": " +
                           std::generic_category().message(errno));
  return descriptor;
}

}  // namespace

Endpoint::Endpoint(const std::string& address)
    : poll_(checked("an epoll", [] { return epoll_create1(EPOLL_CLOEXEC); })),
      wakeup_fd_(checked("an eventfd", [] { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); })),
      listener_([&] {
        Listener listener = listen_at(address);
        contact_ = {random_bytes(process_id_size), address, listener.port, random_bytes(key_size)};
        return std::move(listener.socket);
      }()),
      host_listener_(listen_on_host(contact_.id)),
      made_in_(getpid()),
      last_token_(first_token) {
  watch(poll_.get(), wakeup_fd_.get(), bell_token, EPOLLIN, EPOLL_CTL_ADD);
  watch(poll_.get(), listener_.get(), listener_token, EPOLLIN, EPOLL_CTL_ADD);
  if (host_listener_.is_open())
    watch(poll_.get(), host_listener_.get(), host_listener_token, EPOLLIN, EPOLL_CTL_ADD);
  thread_ = start_thread([this] { run(); });
}

Endpoint::~Endpoint() {
  if (!is_of_this_process()) {  // the thread does not exist
    thread_.detach();
    return;
  }
  {
    EndpointLock lock(mutex_);
    const Deadline limit = deadline_after(flush_limit);
    const auto connections = connections_;
    for (const auto& [token, connection] : connections) connection->flush(lock, limit);
    ending_ = true;
  }
  eventfd_write(wakeup_fd_.get(), 1);
  thread_.join();
}

bool Endpoint::is_of_this_process() const { return getpid() == made_in_; }

ContextId Endpoint::add(GroupEndpoint& group) {
  while (groups_.contains(++last_context_id_)) {
  }
  groups_.emplace(last_context_id_, &group);
  return last_context_id_;
}

void Endpoint::remove(ContextId context_id) { groups_.erase(context_id); }

// --- Connections
// ---------------------------------------------------------------------------------------------

std::shared_ptr<Connection> Endpoint::find(const ProcessId& peer) {
  const auto found = by_peer_.find(peer);
  return found == by_peer_.end() ? nullptr : found->second;
}

std::shared_ptr<Connection> Endpoint::connection_with(const Contact& there, Deadline deadline,
                                                      const LossCheck& check) {
  const bool is_to_connect = contact_.id < there.id;
  if (!is_to_connect) return await_connection(there, deadline, check);
  {
    const EndpointLock lock(mutex_);
    if (std::shared_ptr<Connection> connection = find(there.id)) return connection;
  }
  add_connection(dial(there, contact_.id, deadline, check), there.id);
  return await_connection(there, deadline, check);
}

std::shared_ptr<Connection> Endpoint::await_connection(const Contact& there, Deadline deadline,
                                                       const LossCheck& check) {
  EndpointLock lock(mutex_);
  for (;;) {
    if (std::shared_ptr<Connection> connection = find(there.id)) return connection;
    if (lost_peers_.contains(there.id)) throw DistNetworkError("it died, or the connection to it was lost");
    if (has_passed(deadline)) throw DistNetworkError("no connection was made before the deadline");
    arrived_.wait_until(lock, std::min(deadline, deadline_after(between_checks)));
    if (!check) continue;
    lock.unlock();
    check();
    lock.lock();
  }
}

// A process that has lost its connection makes another one, which replaces the first.
void Endpoint::add_connection(Descriptor socket, const ProcessId& peer) {
  prepare(socket.get());
  const EndpointLock lock(mutex_);
  if (const std::shared_ptr<Connection> before = find(peer)) drop(before, "the connection to it was lost");
  const std::uint64_t token = ++last_token_;
  FrameHandler& handler = *this;
  const auto connection = std::make_shared<Connection>(handler, std::move(socket), peer, token);
  connections_.emplace(token, connection);
  by_peer_[peer] = connection;
  lost_peers_.erase(peer);
  watch(poll_.get(), connection->socket(), token, EPOLLIN, EPOLL_CTL_ADD);
  arrived_.notify_all();
}

void Endpoint::drop(const std::shared_ptr<Connection>& connection, const std::string& why) {
  if (connection->is_lost()) return;
  epoll_ctl(poll_.get(), EPOLL_CTL_DEL, connection->socket(), nullptr);
  connection->mark_lost();
  connections_.erase(connection->token());
  by_peer_.erase(connection->peer());
  lost_peers_.insert(connection->peer());
  for (const auto& [context_id, group] : groups_) group->on_connection_lost(*connection, why);
}

void Endpoint::report_end(const Connection& connection) {
  ended_.push_back(connection.token());
  eventfd_write(wakeup_fd_.get(), 1);
}

// Not before what it has sent is read: perhaps the reason why it has ended.
void Endpoint::drop_ended(EndpointLock& lock) {
  const std::vector<std::uint64_t> ended = std::exchange(ended_, {});
  for (const std::uint64_t token : ended) {
    const auto found = connections_.find(token);
    if (found == connections_.end()) continue;
    const std::shared_ptr<Connection> connection = found->second;
    do {
      serve(lock, connection, EPOLLIN);
    } while (!connection->is_lost() && has_bytes(connection->socket()));
    drop(connection, std::string(it_died) + " (its process has ended)");
  }
}

void Endpoint::disconnect_all() {
  const EndpointLock lock(mutex_);
  for (const auto& [token, connection] : connections_) shutdown(connection->socket(), SHUT_RDWR);
}

// --- What comes for the channels
// -----------------------------------------------------------------------------

void Endpoint::on_frame(Connection& connection, const Frame& frame, std::span<const std::byte> bytes) {
  const auto found = groups_.find(frame.context_id);
  if (found != groups_.end()) found->second->on_frame(connection, frame, bytes);
  if (!frame.is_for_member()) return;
  const bool is_goodbye = frame.kind == Frame::goodbye;
  // The goodbye has arrived, and everything before it, even if the group is gone here.
  if (is_goodbye || found == groups_.end())
    connection.queue({.kind = is_goodbye ? Frame::goodbye_ack : Frame::gone,
                      .context_id = frame.answer_to,
                      .rank = frame.to_rank});
}

std::shared_ptr<Incoming> Endpoint::find_receive(Connection& connection, const Frame& frame) {
  const auto found = groups_.find(frame.context_id);
  return found == groups_.end() ? nullptr : found->second->find_receive(connection, frame);
}

void Endpoint::request_write(Connection& connection) { turns_.push_back(connection.token()); }

void Endpoint::request_writable(Connection& connection, bool waits) {
  if (connection.is_lost()) return;
  const std::uint32_t events = waits ? EPOLLIN | EPOLLOUT : EPOLLIN;
  watch(poll_.get(), connection.socket(), connection.token(), events, EPOLL_CTL_MOD);
}

void Endpoint::on_memory_released() {
  if (memory_awaited_ > 0) memory_free_.notify_all();
}

void Endpoint::await_memory(EndpointLock& lock, const bool& is_used) {
  ++memory_awaited_;
  memory_free_.wait(lock, [&] { return !is_used; });
  --memory_awaited_;
}

// --- The thread
// ----------------------------------------------------------------------------------------------

void Endpoint::run() {
  std::array<epoll_event, 64> events;
  EndpointLock lock(mutex_);
  while (!ending_) {
    const int limit = poll_timeout_ms();
    lock.unlock();
    const int count = epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), limit);
    lock.lock();
    sleeps_ = false;
    for (int i = 0; i < count && !ending_; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      handle(lock, event.data.u64, event.events);
    }
    pending_connections_.drop_expired();
    pending_on_host_.drop_expired();
    if (closed_until_ && has_passed(*closed_until_)) {
      closed_until_.reset();
      watch_listeners(EPOLLIN);
    }
    drop_ended(lock);
    check_keepalives();
  }
}

void Endpoint::watch_listeners(std::uint32_t events) {
  watch(poll_.get(), listener_.get(), listener_token, events, EPOLL_CTL_MOD);
  if (host_listener_.is_open())
    watch(poll_.get(), host_listener_.get(), host_listener_token, events, EPOLL_CTL_MOD);
}

// In milliseconds, for epoll_wait(). If no thread has waited for long, the endpoint's thread sleeps until an
// event and costs nothing.
int Endpoint::poll_timeout_ms() {
  if (closed_until_) return static_cast<int>(time_left(*closed_until_).count());
  if (!pending_connections_.empty() || !pending_on_host_.empty()) return 250;
  const bool is_quiet = waiting_ == 0 && waits_ == waits_seen_;
  if (connections_.empty() || (is_quiet && has_passed(next_check_))) {
    sleeps_ = true;
    return -1;
  }
  return static_cast<int>(std::chrono::milliseconds(KeepaliveMonitor::check_interval).count());
}

Endpoint::ActiveWait::ActiveWait(Endpoint& endpoint) : endpoint_(endpoint) {
  ++endpoint_.waiting_;
  ++endpoint_.waits_;
  if (std::exchange(endpoint_.sleeps_, false)) eventfd_write(endpoint_.wakeup_fd_.get(), 1);
}

void Endpoint::handle(EndpointLock& lock, std::uint64_t token, std::uint32_t events) {
  if (token == bell_token) {
    eventfd_t rung = 0;
    eventfd_read(wakeup_fd_.get(), &rung);
    return;
  }
  if (token == listener_token) return accept_connections(lock, listener_, pending_connections_);
  if (token == host_listener_token) return accept_connections(lock, host_listener_, pending_on_host_);
  if (const auto found = connections_.find(token); found != connections_.end()) {
    return serve(lock, std::shared_ptr<Connection>(found->second), events);
  }
  authenticate(lock, token);
  authenticate_on_host(token);
}

void Endpoint::authenticate(EndpointLock& lock, std::uint64_t pending) {
  std::optional<PendingConnections::Member> member = pending_connections_.authenticate(pending, contact_);
  if (!member) return;
  epoll_ctl(poll_.get(), EPOLL_CTL_DEL, member->socket.get(), nullptr);
  lock.unlock();
  add_connection(std::move(member->socket), member->id);
  lock.lock();
}

// Then it asks for a group's memory, perhaps at once.
void Endpoint::authenticate_on_host(std::uint64_t pending) {
  const auto file_of = [this](ContextId context_id) {
    const auto found = groups_.find(context_id);
    return found == groups_.end() ? -1 : found->second->memory_file();
  };
  if (memory_requests_.has(pending)) return memory_requests_.answer(pending, file_of);
  std::optional<PendingConnections::Member> member = pending_on_host_.authenticate(pending, contact_);
  if (member) memory_requests_.add(pending, std::move(member->socket));
}

// Accepts a few, so that the earlier ones are read meanwhile: a member has usually sent its proof by then. A
// process without descriptors drops the connections without proof, and accepts none for a moment.
void Endpoint::accept_connections(EndpointLock& lock, const Descriptor& listener,
                                  PendingConnections& pending) {
  constexpr int at_once = 32;
  for (int i = 0; i < at_once; ++i) {
    Descriptor socket = accept_from(listener.get());
    if (!socket.is_open() && (errno == EMFILE || errno == ENFILE)) {
      pending_connections_.drop_all();
      pending_on_host_.drop_all();
      closed_until_ = deadline_after(without_descriptors);
      return watch_listeners(0);
    }
    if (!socket.is_open()) return;
    const std::uint64_t token = ++last_token_;
    watch(poll_.get(), socket.get(), token, EPOLLIN, EPOLL_CTL_ADD);
    pending.add(token, std::move(socket));
    authenticate(lock, token);
    authenticate_on_host(token);
  }
}

void Endpoint::serve(EndpointLock& lock, const std::shared_ptr<Connection>& connection,
                     std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) {
    connection->room_came();
    connection->write(lock);
  }
  if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) {
    const std::optional<std::string> why = connection->read(lock);
    if (why) drop(connection, "it died, or the connection to it was lost (" + *why + ")");
  }
  write_pending(lock);
}

void Endpoint::write_pending(EndpointLock& lock) {
  const std::vector<std::uint64_t> turns = std::exchange(turns_, {});
  for (const std::uint64_t token : turns) {
    const auto found = connections_.find(token);
    if (found != connections_.end()) std::shared_ptr<Connection>(found->second)->write(lock);
  }
}

// The end of a host does not end its connections.
void Endpoint::check_keepalives() {
  if (!has_passed(next_check_)) return;
  next_check_ = std::chrono::steady_clock::now() + KeepaliveMonitor::check_interval;
  waits_seen_ = waits_;
  if (waiting_ == 0) return;
  const auto connections = connections_;
  for (const auto& [token, connection] : connections) {
    if (connection->is_silent())
      drop(connection, "its host has not answered for " + std::to_string(KeepaliveMonitor::limit.count()) +
                           " s: it is off or frozen, a firewall drops its packets, or a cable is broken");
  }
}

}  // namespace dlaunch::internal
