// Reading from a socket, writing to it, and its end.
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>

#include "store/loop/uv_addresses.h"
#include "store/loop/uv_loop_impl.h"

namespace dlaunch::store {
namespace {

constexpr std::size_t first_pieces = 8;  // tried at once; more are rare
constexpr Duration linger_time = std::chrono::seconds(2);
constexpr int most_linger_times = 15;
constexpr int keepalive_idle_s = 10;
constexpr int keepalive_interval_s = 5;
constexpr int keepalive_probes = 6;

// The length of a libuv buffer has 32 bits on some systems; on all supported ones it is a size_t. libuv only
// reads the bytes.
uv_buf_t to_uv(ByteSpan bytes) {
  return {const_cast<char*>(reinterpret_cast<const char*>(bytes.data())), bytes.size()};
}

}  // namespace

UvLoop::Impl::Socket* UvLoop::Impl::new_socket() {
  auto* socket = new Socket(*this);
  uv_tcp_init(&loop_, &socket->tcp);
  socket->tcp.data = socket;
  sockets_.insert(socket);
  return socket;
}

void UvLoop::Impl::tune(Socket& socket) {
  uv_tcp_nodelay(&socket.tcp, 1);
  uv_tcp_keepalive(&socket.tcp, 1, keepalive_idle_s);
  uv_os_fd_t fd = -1;
  if (uv_fileno(base(socket.tcp), &fd) == 0) {
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &keepalive_interval_s, sizeof keepalive_interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &keepalive_probes, sizeof keepalive_probes);
  }
}

void UvLoop::Impl::read_on(Socket& socket) {
  uv_read_start(
      stream(socket.tcp),
      [](uv_handle_t* handle, std::size_t, uv_buf_t* buffer) {
        Impl& impl = static_cast<Socket*>(handle->data)->impl;
        *buffer = uv_buf_init(impl.read_buffer_.get(), read_buffer_size);
      },
      [](uv_stream_t* from, ssize_t count, const uv_buf_t*) {
        auto& reader = *static_cast<Socket*>(from->data);
        if (count != 0) reader.impl.received(reader, count);
      });
}

void UvLoop::Impl::received(Socket& socket, ssize_t count) {
  const Event event(*this);
  if (count < 0) return lost(socket, static_cast<int>(count));
  Conn* conn = find(socket.id);
  if (conn == nullptr) return;  // lingers: later bytes are dropped
  call_handler(socket.id, [&](ConnectionHandler& handler) {
    handler.on_received(socket.id, as_byte_span({read_buffer_.get(), static_cast<std::size_t>(count)}));
  });
}

// If memory is too short to report the end of a connection, the report is dropped; no other exception leaves.
void UvLoop::Impl::report_closed(ConnectionHandler& handler, ConnId id, const Address& peer, int status) {
  try {
    const CloseKind how = close_kind(status);
    const ErrorKind kind = how == CloseKind::timed_out ? ErrorKind::timeout
                           : how == CloseKind::failed  ? ErrorKind::limit
                                                       : ErrorKind::network;
    handler.on_closed(id, {how, {kind, "lost the connection to", to_string(peer), describe(status), ""}});
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
  }
}

void UvLoop::Impl::end_without_memory(ConnId id) {
  const Conn* conn = find(id);
  if (conn == nullptr) return;
  ConnectionHandler& handler = *conn->handler;
  const Address peer = std::move(conn->socket->peer);
  abort(id);
  report_closed(handler, id, peer, UV_ENOMEM);
}

void UvLoop::Impl::lost(Socket& socket, int status) {
  uv_read_stop(stream(socket.tcp));
  socket.peer_done = true;
  Conn* conn = find(socket.id);
  if (conn == nullptr) {
    if (status != UV_EOF || unsent(socket) == 0) destroy(socket);
    return;
  }
  ConnectionHandler& handler = *conn->handler;
  const ConnId id = std::exchange(socket.id, {});
  const Address peer = std::move(socket.peer);
  free_conn(id);
  if (status == UV_EOF && unsent(socket) != 0) {
    linger(socket);  // the peer sends nothing more, but may still read
  } else {
    destroy(socket);
  }
  report_closed(handler, id, peer, status);
}

void UvLoop::Impl::mark_dirty(Socket& socket) {
  if (socket.dirty) return;
  socket.dirty = true;
  dirty_.push_back(&socket);
  want_turn();
}

void UvLoop::Impl::flush(Socket& socket) {
  if (socket.writing || socket.out.empty()) return;
  std::array<uv_buf_t, first_pieces> first{};
  std::size_t count = 0;
  socket.out.each(0, first.size(), [&](ByteSpan piece) { first.at(count++) = to_uv(piece); });
  const int taken = uv_try_write(stream(socket.tcp), first.data(), static_cast<unsigned>(count));
  if (taken < 0 && taken != UV_EAGAIN) return lost(socket, taken);
  const std::size_t done = taken < 0 ? 0 : static_cast<std::size_t>(taken);
  if (done == socket.out.size()) {
    socket.out.clear();
    return drained(socket);
  }
  write_rest(socket, done);
}

// Lends libuv the queued bytes, without the first `done`.
void UvLoop::Impl::write_rest(Socket& socket, std::size_t done) {
  std::vector<uv_buf_t> buffers;
  try {
    socket.out.each(done, SIZE_MAX, [&](ByteSpan piece) { buffers.push_back(to_uv(piece)); });
  } catch (const std::bad_alloc&) {
    return lost(socket, UV_ENOMEM);
  }
  socket.in_flight.swap(socket.out);
  socket.writing = true;
  const int status = uv_write(&socket.write, stream(socket.tcp), buffers.data(),
                              static_cast<unsigned>(buffers.size()), [](uv_write_t* write, int result) {
                                auto& writer = *static_cast<Socket*>(write->handle->data);
                                writer.impl.written(writer, result);
                              });
  if (status != 0) lost(socket, status);
}

void UvLoop::Impl::written(Socket& socket, int status) {
  if (socket.closing) return;
  const Event event(*this);
  socket.writing = false;
  socket.in_flight.clear();
  if (status != 0) return lost(socket, status);
  if (socket.out.empty()) return drained(socket);
  flush(socket);
}

void UvLoop::Impl::drained(Socket& socket) {
  if (socket.lingering) {
    if (socket.peer_done) return destroy(socket);
    if (!std::exchange(socket.shut, true)) {
      uv_shutdown(&socket.shutdown, stream(socket.tcp), [](uv_shutdown_t*, int) {});
    }
    return;
  }
  if (!std::exchange(socket.over_high_water, false)) return;
  if (find(socket.id) == nullptr) return;
  const ConnId id = socket.id;
  call_handler(id, [id](ConnectionHandler& handler) { handler.on_drained(id); });
}

// Sends the queued bytes, then waits until the peer closes, too: closing while bytes of the peer are unread
// would make the kernel reset the connection, and the peer would lose what it has not read yet. It ends when
// the peer has taken nothing for linger_time, and after most_linger_times of them.
void UvLoop::Impl::linger(Socket& socket) {
  socket.lingering = true;
  arm_linger(socket);
  if (!socket.writing) mark_dirty(socket);
  if (!socket.peer_done) read_on(socket);
}

void UvLoop::Impl::arm_linger(Socket& socket) {
  socket.linger_unsent = unsent(socket);
  socket.linger_timer = arm(now() + linger_time, socket);
  ++socket.linger_times;
}

void UvLoop::Impl::linger_on(Socket& socket) {
  const bool takes_some = unsent(socket) < socket.linger_unsent;
  if (takes_some && socket.linger_times < most_linger_times) return arm_linger(socket);
  destroy(socket);
}

void UvLoop::Impl::drop_remains() {
  for (Socket* socket : sockets_) {
    if (socket->lingering && unsent(*socket) != 0) destroy(*socket, true);
  }
}

// `resets`: also drops what the kernel has not sent yet.
void UvLoop::Impl::destroy(Socket& socket, bool resets) {
  if (socket.closing) return;
  socket.closing = true;
  socket.id = {};
  disarm(socket.linger_timer);
  if (socket.dirty) {
    std::replace(dirty_.begin(), dirty_.end(), &socket, static_cast<Socket*>(nullptr));
    std::replace(flushing_.begin(), flushing_.end(), &socket, static_cast<Socket*>(nullptr));
  }
  const auto on_closed = [](uv_handle_t* handle) {
    auto* closed = static_cast<Socket*>(handle->data);
    closed->impl.sockets_.erase(closed);
    delete closed;
  };
  if (!resets || uv_tcp_close_reset(&socket.tcp, on_closed) != 0) uv_close(base(socket.tcp), on_closed);
  socket.out.clear();  // at once, and not only when libuv has closed the handle; libuv writes no more
  socket.in_flight.clear();
}

}  // namespace dlaunch::store
