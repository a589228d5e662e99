// Connections, and the attempts that lead to them: a name looked up, then one address after the other.
#include "store/loop/uv_addresses.h"
#include "store/loop/uv_loop_impl.h"

namespace dlaunch::store {

UvLoop::Impl::Conn* UvLoop::Impl::find(ConnId id) {
  if (!id || id.slot >= conns_.size()) return nullptr;
  Conn& conn = conns_[id.slot];
  return conn.live && conn.generation == id.generation ? &conn : nullptr;
}

ConnId UvLoop::Impl::new_conn(ConnectionHandler* handler) {
  if (free_conns_.empty()) {
    conns_.emplace_back();
    free_conns_.push_back(static_cast<std::uint32_t>(conns_.size() - 1));
  }
  const std::uint32_t slot = free_conns_.back();
  free_conns_.pop_back();
  Conn& conn = conns_[slot];
  conn.live = true;
  conn.handler = handler;
  return {slot, conn.generation};
}

void UvLoop::Impl::free_conn(ConnId id) {
  Conn& conn = conns_[id.slot];
  const std::uint32_t next = conn.generation + 1 == 0 ? 1 : conn.generation + 1;
  conn = Conn{};
  conn.generation = next;
  free_conns_.push_back(id.slot);
}

ConnId UvLoop::Impl::connect(const Address& address, TimePoint deadline, ConnectionHandler& handler) {
  const ConnId id = new_conn(&handler);
  auto* attempt = new Attempt(*this);
  attempt->id = id;
  attempt->address = address;
  attempt->started = now();
  attempt->deadline = deadline;
  attempt->timer = arm(deadline, *attempt);
  find(id)->attempt = attempt;
  starting_.push_back(id);  // starts at the loop's top level, which may report a failure
  want_turn();
  return id;
}

template <class Bytes>
void UvLoop::Impl::send(ConnId id, const Bytes& bytes) {
  Conn* conn = find(id);
  if (conn == nullptr || bytes.size() == 0) return;
  if (conn->attempt != nullptr) {
    conn->attempt->early.append(as_text(bytes));
    return;
  }
  Socket& socket = *conn->socket;
  socket.out.append(bytes);
  if (unsent(socket) > high_water) socket.over_high_water = true;
  if (!socket.writing) mark_dirty(socket);
}

void UvLoop::Impl::pause_reading(ConnId id, bool paused) {
  Conn* conn = find(id);
  if (conn == nullptr || conn->paused == paused) return;
  conn->paused = paused;
  if (conn->socket == nullptr) return;
  if (paused) {
    uv_read_stop(stream(conn->socket->tcp));
  } else {
    read_on(*conn->socket);
  }
}

void UvLoop::Impl::close(ConnId id) {
  Conn* conn = find(id);
  if (conn == nullptr) return;
  if (conn->attempt != nullptr) return drop(*conn->attempt);
  Socket& socket = *conn->socket;
  free_conn(id);
  socket.id = {};
  if (unsent(socket) == 0) return destroy(socket);
  linger(socket);
}

void UvLoop::Impl::abort(ConnId id) {
  Conn* conn = find(id);
  if (conn == nullptr) return;
  if (conn->attempt != nullptr) return drop(*conn->attempt);
  Socket& socket = *conn->socket;
  free_conn(id);
  destroy(socket, true);
}

// The public interface.

void UvLoop::send(ConnId conn, ByteSpan bytes) { impl_->send(conn, bytes); }
void UvLoop::send_shared(ConnId conn, const SharedBytes& bytes) { impl_->send(conn, bytes); }
void UvLoop::abort(ConnId conn) { impl_->abort(conn); }

// --- attempts ---

void UvLoop::Impl::start(Attempt& attempt) {
  sockaddr_storage numeric{};
  if (parse_numeric(attempt.address, numeric)) {
    attempt.targets.push_back(numeric);
    return try_next(attempt);
  }
  const addrinfo hints = stream_hints(0);
  attempt.lookup.data = &attempt;
  const int status = uv_getaddrinfo(
      &loop_, &attempt.lookup,
      [](uv_getaddrinfo_t* lookup, int result, addrinfo* found) {
        auto& started = *static_cast<Attempt*>(lookup->data);
        started.impl.looked_up(started, result, found);
      },
      attempt.address.host.c_str(), nullptr, &hints);
  if (status != 0) return fail(attempt, status, describe(status));
  attempt.looking_up = true;
}

void UvLoop::Impl::looked_up(Attempt& attempt, int status, addrinfo* found) {
  const Event event(*this);
  attempt.looking_up = false;
  if (status == 0) attempt.targets = to_list(found, attempt.address.port);
  uv_freeaddrinfo(found);
  if (!attempt.id) {
    delete &attempt;
    return;
  }
  if (status != 0) return fail(attempt, status, describe(status));
  try_next(attempt);
}

void UvLoop::Impl::try_next(Attempt& attempt) {
  while (attempt.next < attempt.targets.size()) {
    const sockaddr_storage& target = attempt.targets[attempt.next];
    // One silent address must not use up the time of the others.
    const auto left = static_cast<Duration::rep>(attempt.targets.size() - attempt.next);
    ++attempt.next;
    Socket* socket = new_socket();
    socket->id = attempt.id;
    socket->peer = attempt.address;
    const int status =
        uv_tcp_connect(&socket->connect, &socket->tcp, raw(target), [](uv_connect_t* connect, int result) {
          auto& tried = *static_cast<Socket*>(connect->handle->data);
          tried.impl.connected(tried, result);
        });
    if (status == 0) {
      attempt.socket = socket;
      disarm(attempt.timer);
      attempt.timer = arm(now() + (attempt.deadline - now()) / left, attempt);
      return;
    }
    attempt.last_failure = status;
    destroy(*socket);
  }
  fail(attempt, attempt.last_failure, describe(attempt.last_failure));
}

void UvLoop::Impl::connected(Socket& socket, int status) {
  if (socket.closing) return;  // given up; libuv only confirms it
  const Event event(*this);
  const ConnId id = socket.id;
  Conn& conn = *find(id);
  Attempt& attempt = *conn.attempt;
  attempt.socket = nullptr;
  if (status == 0 && met_itself(socket.tcp)) status = UV_ECONNREFUSED;
  if (status != 0) {
    attempt.last_failure = status;
    destroy(socket);
    return try_next(attempt);
  }
  tune(socket);
  conn.socket = &socket;
  conn.attempt = nullptr;
  if (!attempt.early.empty()) {
    socket.out.append(as_byte_span(attempt.early));
    mark_dirty(socket);
  }
  disarm(attempt.timer);
  delete &attempt;
  if (!conn.paused) read_on(socket);
  call_handler(id, [&](ConnectionHandler& handler) { handler.on_connected(id); });
}

void UvLoop::Impl::attempt_timed_out(Attempt& attempt) {
  attempt.timer = {};
  attempt.last_failure = UV_ETIMEDOUT;
  if (attempt.socket != nullptr) destroy(*std::exchange(attempt.socket, nullptr));
  if (now() < attempt.deadline && attempt.next < attempt.targets.size()) return try_next(attempt);
  fail(attempt, UV_ETIMEDOUT, "no answer within " + to_words(now() - attempt.started));
}

void UvLoop::Impl::fail(Attempt& attempt, int status, const std::string& why) {
  const ConnId id = attempt.id;
  const CloseKind how = close_kind(status);
  const ErrorKind kind = how == CloseKind::timed_out ? ErrorKind::timeout : ErrorKind::network;
  const ConnectionEnd end{
      how, {kind, "cannot connect to", to_string(attempt.address), connect_failure(status, why), ""}};
  ConnectionHandler& handler = *find(id)->handler;
  drop(attempt);
  handler.on_closed(id, end);
}

// Ends the attempt and its id, and calls no handler.
void UvLoop::Impl::drop(Attempt& attempt) {
  free_conn(std::exchange(attempt.id, {}));
  disarm(attempt.timer);
  if (attempt.socket != nullptr) destroy(*attempt.socket);
  if (attempt.looking_up) {
    uv_cancel(reinterpret_cast<uv_req_t*>(&attempt.lookup));  // its callback comes in any case, and deletes
  } else {
    delete &attempt;
  }
}

}  // namespace dlaunch::store
