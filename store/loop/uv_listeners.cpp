// Listening.
#include "store/loop/uv_addresses.h"
#include "store/loop/uv_loop_impl.h"

#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>

namespace dlaunch::store {
namespace {

constexpr int free_port_tries = 32;

}  // namespace

Result<Network::Listening> UvLoop::Impl::listen(const Address& address, ListenerHandler& handler) {
  const auto failure = [&](int status) {
    const bool unknown = status == UV_EAI_NONAME || status == UV_EAI_NODATA;
    const ErrorKind kind = unknown                      ? ErrorKind::not_found
                           : status == UV_EADDRNOTAVAIL ? ErrorKind::foreign
                           : status == UV_EADDRINUSE    ? ErrorKind::in_use
                           : status == UV_EAI_AGAIN     ? ErrorKind::timeout  // of the name servers
                                                        : ErrorKind::network;
    return Error{kind, "cannot listen on", to_string(address), describe(status), ""};
  };

  std::vector<std::vector<sockaddr_storage>> choices;  // the first that can be bound is taken
  sockaddr_storage numeric{};
  if (address.host.empty() || address.host == "*") {
    for (const char* any : {"::", "0.0.0.0"}) {
      parse_numeric({any, address.port}, numeric);
      choices.push_back({numeric});
    }
  } else if (parse_numeric(address, numeric)) {
    choices.push_back({numeric});
  } else {
    const addrinfo hints = stream_hints(AI_PASSIVE);
    uv_getaddrinfo_t lookup{};
    if (const int status = uv_getaddrinfo(&loop_, &lookup, nullptr, address.host.c_str(), nullptr, &hints);
        status != 0) {
      return failure(status);
    }
    choices.push_back(to_list(lookup.addrinfo, address.port));
    uv_freeaddrinfo(lookup.addrinfo);
  }

  const ListenerId id = new_listener();
  Listener& listener = listeners_[id.slot];
  int status = UV_EADDRNOTAVAIL;
  for (const auto& targets : choices) {
    // A port that is free on the first address may be in use on the second: then tries another one.
    for (int tries = address.port == 0 && targets.size() > 1 ? free_port_tries : 1; tries > 0; --tries) {
      std::uint16_t port = address.port;
      status = bind_all(id, targets, port, listener);
      if (status == 0) return started(id, port, handler);
      close_sockets(listener);
      if (status != UV_EADDRINUSE) break;
    }
    if (status == UV_EADDRINUSE) break;  // in_use is final; only a missing family leads to the next choice
  }
  return failure(status);
}

Result<Network::Listening> UvLoop::Impl::listen_on(int fd, ListenerHandler& handler) {
  const ListenerId id = new_listener();
  ListenSocket* socket = new_listen_socket(id);
  int family = AF_UNSPEC;
  socklen_t size = sizeof family;
  int status = getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 ? 0 : uv_translate_sys_error(errno);
  if (status == 0 && family != AF_INET && family != AF_INET6) status = UV_EAFNOSUPPORT;
  if (status == 0) status = uv_tcp_open(&socket->tcp, fd);
  if (status != 0) ::close(fd);
  status = start(*socket, status, listeners_[id.slot]);
  if (status != 0) {
    return Error{ErrorKind::network, "cannot listen on", "socket " + std::to_string(fd), describe(status),
                 ""};
  }
  return started(id, bound_address(socket->tcp).port, handler);
}

// A slot that is free until started().
ListenerId UvLoop::Impl::new_listener() {
  auto free_slot = std::find_if(listeners_.begin(), listeners_.end(),
                                [](const Listener& l) { return l.handler == nullptr; });
  if (free_slot == listeners_.end()) free_slot = listeners_.emplace(listeners_.end());
  return {static_cast<std::uint32_t>(free_slot - listeners_.begin()), free_slot->generation};
}

Network::Listening UvLoop::Impl::started(ListenerId id, std::uint16_t port, ListenerHandler& handler) {
  Listener& listener = listeners_[id.slot];
  listener.handler = &handler;
  Listening result{id, port, {}};
  for (const ListenSocket* socket : listener.sockets) result.addresses.push_back(bound_address(socket->tcp));
  return result;
}

// Binds all targets on one port (the first one's, if `port` is 0). Leaves out addresses of a family that this
// machine lacks, as long as one remains.
int UvLoop::Impl::bind_all(ListenerId id, std::vector<sockaddr_storage> targets, std::uint16_t& port,
                           Listener& into) {
  int missing = UV_EADDRNOTAVAIL;
  for (sockaddr_storage& target : targets) {
    set_port(target, port);
    const int status = bind_one(id, target, into);
    if (status == UV_EADDRNOTAVAIL || status == UV_EAFNOSUPPORT) {
      missing = status;
      continue;
    }
    if (status != 0) return status;
    if (port == 0) port = bound_address(into.sockets.back()->tcp).port;
  }
  return into.sockets.empty() ? missing : 0;
}

int UvLoop::Impl::bind_one(ListenerId id, const sockaddr_storage& address, Listener& into) {
  ListenSocket* socket = new_listen_socket(id);
  return start(*socket, uv_tcp_bind(&socket->tcp, raw(address), 0), into);
}

UvLoop::Impl::ListenSocket* UvLoop::Impl::new_listen_socket(ListenerId id) {
  auto* socket = new ListenSocket;
  socket->impl = this;
  socket->id = id;
  uv_tcp_init(&loop_, &socket->tcp);
  socket->tcp.data = socket;
  return socket;
}

// Listens, if `status` reports success so far; closes the socket on any failure.
int UvLoop::Impl::start(ListenSocket& socket, int status, Listener& into) {
  if (status == 0) {
    // The kernel cuts the backlog to net.core.somaxconn.
    status = uv_listen(stream(socket.tcp), INT_MAX, [](uv_stream_t* server, int failure) {
      auto& from = *static_cast<ListenSocket*>(server->data);
      if (failure == 0) from.impl->accept(from);
    });
  }
  if (status != 0) {
    uv_close(base(socket.tcp), [](uv_handle_t* handle) { delete static_cast<ListenSocket*>(handle->data); });
    return status;
  }
  into.sockets.push_back(&socket);
  return 0;
}

void UvLoop::Impl::close_sockets(Listener& listener) {
  for (ListenSocket* socket : std::exchange(listener.sockets, {})) {
    uv_close(base(socket->tcp), [](uv_handle_t* handle) { delete static_cast<ListenSocket*>(handle->data); });
  }
}

void UvLoop::Impl::unlisten(ListenerId id) {
  if (!id || id.slot >= listeners_.size()) return;
  Listener& listener = listeners_[id.slot];
  if (listener.generation != id.generation || listener.handler == nullptr) return;
  listener.handler = nullptr;
  if (++listener.generation == 0) listener.generation = 1;
  close_sockets(listener);
}

void UvLoop::Impl::accept(ListenSocket& from) {
  const Event event(*this);
  Socket* socket = new_socket();
  sockaddr_storage peer{};
  int size = sizeof peer;
  if (uv_accept(stream(from.tcp), stream(socket->tcp)) != 0 ||
      uv_tcp_getpeername(&socket->tcp, reinterpret_cast<sockaddr*>(&peer), &size) != 0) {
    return destroy(*socket);
  }
  socket->peer = to_address(raw(peer));
  tune(*socket);
  const ConnId id = new_conn(nullptr);
  socket->id = id;
  find(id)->socket = socket;
  ConnectionHandler* handler = nullptr;
  try {
    handler = &listeners_[from.id.slot].handler->on_accepted(id, Address(socket->peer));
  } catch (const std::bad_alloc&) {
    return abort(id);
  }
  Conn* conn = find(id);
  if (conn == nullptr) return;  // rejected
  if (conn->handler == nullptr) conn->handler = handler;
  if (!conn->paused) read_on(*socket);
}

}  // namespace dlaunch::store
