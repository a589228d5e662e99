// What is read from a socket and written to it, and its end.
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <climits>

#include "store/base/uv_addresses.h"
#include "store/base/uv_loop_impl.h"

namespace dlaunch {
namespace {

constexpr std::size_t kept_capacity =
    4 * 1024;  // an idle connection holds no more than this for its next bytes
constexpr Duration linger_time = std::chrono::seconds(2);
constexpr int keepalive_idle_s = 10;
constexpr int keepalive_interval_s = 5;
constexpr int keepalive_probes = 6;

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
  if (conn == nullptr) return;  // lingers: what still comes is of no interest
  conn->handler->on_received(socket.id, as_byte_span({read_buffer_.get(), static_cast<std::size_t>(count)}));
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
  // Whoever closes a connection knows of its end; where it timed out, the other side may not.
  const bool closed = status == UV_EOF || status == UV_ECONNRESET || status == UV_EPIPE;
  const Error reason{closed ? ErrorKind::network : ErrorKind::timeout, "lost the connection to",
                     to_string(socket.peer), in_words(status), ""};
  free_conn(id);
  if (status == UV_EOF && unsent(socket) != 0) {
    linger(socket);  // the peer has said all it will say, it may still listen
  } else {
    destroy(socket);
  }
  handler.on_closed(id, reason);
}

void UvLoop::Impl::mark_dirty(Socket& socket) {
  if (socket.dirty) return;
  socket.dirty = true;
  dirty_.push_back(&socket);
  want_turn();
}

void UvLoop::Impl::flush(Socket& socket) {
  if (socket.writing || socket.out.empty()) return;
  uv_buf_t buffer = uv_buf_init(socket.out.data(),
                                static_cast<unsigned>(std::min<std::size_t>(socket.out.size(), INT_MAX)));
  const int taken = uv_try_write(stream(socket.tcp), &buffer, 1);
  if (taken < 0 && taken != UV_EAGAIN) return lost(socket, taken);
  const std::size_t done = taken < 0 ? 0 : static_cast<std::size_t>(taken);
  if (done == socket.out.size()) {
    socket.out.clear();
    if (socket.out.capacity() > kept_capacity) std::string().swap(socket.out);
    return drained(socket);
  }
  socket.in_flight.swap(socket.out);
  socket.writing = true;
  // A libuv buffer's length is 32 bits wide on some systems; on all of ours it is a size_t.
  buffer = uv_buf_t{socket.in_flight.data() + done, socket.in_flight.size() - done};
  uv_write(&socket.write, stream(socket.tcp), &buffer, 1, [](uv_write_t* write, int status) {
    auto& writer = *static_cast<Socket*>(write->handle->data);
    writer.impl.written(writer, status);
  });
}

void UvLoop::Impl::written(Socket& socket, int status) {
  if (socket.closing) return;
  const Event event(*this);
  socket.writing = false;
  std::string().swap(socket.in_flight);
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
  if (Conn* conn = find(socket.id); conn != nullptr) conn->handler->on_drained(socket.id);
}

// Sends what is queued, then waits for the peer to close too: closing while bytes of the peer are unread
// would make the kernel reset the connection and lose what the peer has not read yet. All that for a bounded
// time.
void UvLoop::Impl::linger(Socket& socket) {
  socket.lingering = true;
  socket.linger_timer = arm(now() + linger_time, socket);
  if (!socket.writing) mark_dirty(socket);
  if (!socket.peer_done) read_on(socket);
}

void UvLoop::Impl::destroy(Socket& socket) {
  if (socket.closing) return;
  socket.closing = true;
  socket.id = {};
  disarm(socket.linger_timer);
  if (socket.dirty) {
    std::replace(dirty_.begin(), dirty_.end(), &socket, static_cast<Socket*>(nullptr));
    std::replace(flushing_.begin(), flushing_.end(), &socket, static_cast<Socket*>(nullptr));
  }
  uv_close(base(socket.tcp), [](uv_handle_t* handle) {
    auto* closed = static_cast<Socket*>(handle->data);
    closed->impl.sockets_.erase(closed);
    delete closed;
  });
}

}  // namespace dlaunch
