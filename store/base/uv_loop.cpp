#include "store/base/uv_loop.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <mutex>
#include <random>
#include <string>
#include <unordered_set>
#include <utility>

namespace dlaunch {
namespace {

constexpr std::size_t read_buffer_size = 64 * 1024;
constexpr std::size_t kept_capacity =
    4 * 1024;  // an idle connection holds no more than this for its next bytes
constexpr Duration linger_time = std::chrono::seconds(2);
constexpr int keepalive_idle_s = 10;
constexpr int keepalive_interval_s = 5;
constexpr int keepalive_probes = 6;
constexpr int free_port_tries = 32;

std::string in_words(int status) {
  switch (status) {
    case UV_EOF:
      return "closed by the peer";
    case UV_EAI_NONAME:
    case UV_EAI_NODATA:
    case UV_EAI_FAIL:
      return "name not known";
    case UV_EAI_AGAIN:
      return "the name service does not answer";
    case UV_EADDRNOTAVAIL:
      return "not an address of this machine";
    case UV_ETIMEDOUT:
      return "no answer";
    default:
      return uv_strerror(status);
  }
}

Address to_address(const sockaddr* raw) {
  char host[INET6_ADDRSTRLEN + UV_IF_NAMESIZE] = "?";
  if (raw->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(raw);
    uv_ip4_name(v4, host, sizeof host);
    return {host, ntohs(v4->sin_port)};
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(raw);
  uv_ip6_name(v6, host, sizeof host);
  std::string text = host;
  // A dual-stack socket shows its IPv4 peers in IPv6's clothes; people know them by the plain form.
  if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) text = text.substr(text.rfind(':') + 1);
  return {std::move(text), ntohs(v6->sin6_port)};
}

void set_port(sockaddr_storage& address, std::uint16_t port) {
  if (address.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
  }
}

bool parse_numeric(const Address& address, sockaddr_storage& into) {
  if (uv_ip4_addr(address.host.c_str(), address.port, reinterpret_cast<sockaddr_in*>(&into)) == 0)
    return true;
  return uv_ip6_addr(address.host.c_str(), address.port, reinterpret_cast<sockaddr_in6*>(&into)) == 0;
}

addrinfo stream_hints(int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  return hints;
}

std::vector<sockaddr_storage> to_list(const addrinfo* found, std::uint16_t port) {
  std::vector<sockaddr_storage> list;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    sockaddr_storage& copy = list.emplace_back();
    std::memcpy(&copy, one->ai_addr, one->ai_addrlen);
    set_port(copy, port);
  }
  return list;
}

// A connect to a free local port can meet itself: TCP allows both ends to be one socket.
bool met_itself(const uv_tcp_t& tcp) {
  sockaddr_storage here{};
  sockaddr_storage there{};
  int here_size = sizeof here;
  int there_size = sizeof there;
  return uv_tcp_getsockname(&tcp, reinterpret_cast<sockaddr*>(&here), &here_size) == 0 &&
         uv_tcp_getpeername(&tcp, reinterpret_cast<sockaddr*>(&there), &there_size) == 0 &&
         here_size == there_size && std::memcmp(&here, &there, static_cast<std::size_t>(here_size)) == 0;
}

const sockaddr* raw(const sockaddr_storage& address) { return reinterpret_cast<const sockaddr*>(&address); }

Address bound_address(const uv_tcp_t& tcp) {
  sockaddr_storage bound{};
  int size = sizeof bound;
  uv_tcp_getsockname(&tcp, reinterpret_cast<sockaddr*>(&bound), &size);
  return to_address(raw(bound));
}

}  // namespace

struct UvLoop::Impl {
  struct Timer {
    uv_timer_t handle{};
    Impl* impl = nullptr;
    TimerId id;
    TimerHandler* handler = nullptr;  // null: free
    TimePoint at;
  };

  struct ListenSocket {
    uv_tcp_t tcp{};
    Impl* impl = nullptr;
    ListenerId id;
  };

  struct Listener {
    std::uint32_t generation = 1;
    ListenerHandler* handler = nullptr;  // null: free
    std::vector<ListenSocket*> sockets;
  };

  // A TCP socket. It lives until libuv has closed its handle, which may be long after its connection's id
  // died.
  struct Socket final : TimerHandler {
    explicit Socket(Impl& owner) : impl(owner) {}
    void on_timer(TimerId) override { impl.destroy(*this); }  // has lingered long enough

    Impl& impl;
    uv_tcp_t tcp{};
    uv_connect_t connect{};
    uv_write_t write{};
    uv_shutdown_t shutdown{};
    ConnId id;  // none once the connection has ended and only bytes are left to send
    Address peer;
    std::string out;        // queued, not yet given to libuv
    std::string in_flight;  // lent to libuv until the write's callback
    TimerId linger_timer;
    bool writing = false;
    bool dirty = false;  // in the list of those that have something to flush
    bool over_high_water = false;
    bool lingering = false;
    bool shut = false;
    bool peer_done = false;
    bool closing = false;
  };

  // A connect() that is under way: resolving, then trying one address after the other.
  struct Attempt final : TimerHandler {
    explicit Attempt(Impl& owner) : impl(owner) {}
    void on_timer(TimerId) override { impl.attempt_timed_out(*this); }

    Impl& impl;
    ConnId id;  // none: given up while the name was looked up
    Address address;
    TimePoint started;
    TimePoint deadline;
    uv_getaddrinfo_t lookup{};
    bool looking_up = false;
    std::vector<sockaddr_storage> targets;
    std::size_t next = 0;
    Socket* socket = nullptr;
    TimerId timer;
    int last_failure = UV_EAI_NONAME;
    std::string early;  // sent before there was a connection
  };

  struct Conn {
    std::uint32_t generation = 1;
    bool live = false;
    bool paused = false;
    ConnectionHandler* handler = nullptr;
    Socket* socket = nullptr;    // when open
    Attempt* attempt = nullptr;  // while connecting
  };

  // Marks one event: the clock is read at most once in it.
  class Event {
   public:
    explicit Event(Impl& impl) : impl_(impl) { impl_.clock_stale_ = true; }
    ~Event() { impl_.clock_stale_ = true; }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

   private:
    Impl& impl_;
  };

  Impl();
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  TimePoint now() const;

  // timers
  TimerId arm(TimePoint at, TimerHandler& handler);
  void disarm(TimerId id);
  void start_timer(Timer& timer);
  void free_timer(Timer& timer);
  void fire(Timer& timer);

  // listening
  Result<Listening> listen(const Address& address, ListenerHandler& handler);
  Result<Listening> listen_on(int socket, ListenerHandler& handler);
  ListenerId new_listener();
  Listening started(ListenerId id, std::uint16_t port, ListenerHandler& handler);
  ListenSocket* new_listen_socket(ListenerId id);
  static int start(ListenSocket& socket, int status, Listener& into);
  int bind_one(ListenerId id, const sockaddr_storage& address, Listener& into);
  int bind_all(ListenerId id, std::vector<sockaddr_storage> targets, std::uint16_t& port, Listener& into);
  void unlisten(ListenerId id);
  void close_sockets(Listener& listener);
  void accept(ListenSocket& from);

  // connections
  Conn* find(ConnId id);
  const Conn* find(ConnId id) const { return const_cast<Impl*>(this)->find(id); }
  ConnId new_conn(ConnectionHandler* handler);
  void free_conn(ConnId id);
  ConnId connect(const Address& address, TimePoint deadline, ConnectionHandler& handler);
  void send(ConnId id, ByteSpan bytes);
  void pause_reading(ConnId id, bool paused);
  void close(ConnId id);

  // attempts
  void start(Attempt& attempt);
  void looked_up(Attempt& attempt, int status, addrinfo* found);
  void try_next(Attempt& attempt);
  void connected(Socket& socket, int status);
  void attempt_timed_out(Attempt& attempt);
  void fail(Attempt& attempt, ErrorKind kind, std::string why);
  void drop(Attempt& attempt);

  // sockets
  Socket* new_socket();
  void tune(Socket& socket);
  void read_on(Socket& socket);
  void received(Socket& socket, ssize_t count);
  void lost(Socket& socket, int status);
  void mark_dirty(Socket& socket);
  void flush(Socket& socket);
  void written(Socket& socket, int status);
  void drained(Socket& socket);
  void linger(Socket& socket);
  void destroy(Socket& socket);
  static std::size_t unsent(const Socket& socket) {
    return socket.out.size() +
           uv_stream_get_write_queue_size(reinterpret_cast<const uv_stream_t*>(&socket.tcp));
  }

  // once a turn
  void turn();
  void run_posted();
  void want_turn() {
    uv_idle_start(&idle_, [](uv_idle_t*) {});
  }

  template <class T>
  static uv_handle_t* base(T& handle) {
    return reinterpret_cast<uv_handle_t*>(&handle);
  }
  static uv_stream_t* stream(uv_tcp_t& tcp) { return reinterpret_cast<uv_stream_t*>(&tcp); }

  uv_loop_t loop_{};
  uv_prepare_t prepare_{};
  uv_check_t check_{};
  uv_idle_t idle_{};  // active while something must happen without waiting for the outside
  uv_async_t async_{};
  bool running_ = false;
  mutable bool clock_stale_ = true;
  mutable TimePoint now_;

  std::vector<std::unique_ptr<Timer>> timers_;
  std::vector<std::uint32_t> free_timers_;
  std::vector<Listener> listeners_;
  std::vector<Conn> conns_;
  std::vector<std::uint32_t> free_conns_;
  std::unordered_set<Socket*> sockets_;  // all, those that linger too
  std::vector<ConnId> starting_;
  std::vector<Socket*> dirty_;
  std::vector<Socket*> flushing_;
  std::unique_ptr<char[]> read_buffer_ = std::make_unique<char[]>(read_buffer_size);
  std::mt19937_64 random_{std::random_device{}()};

  std::mutex posted_mutex_;
  std::vector<std::function<void()>> posted_;  // protected by posted_mutex_
};

UvLoop::Impl::Impl() {
  // A peer that has gone away is an error of the write, not the end of the process. Who has a handler keeps
  // it.
  struct sigaction current {};
  if (sigaction(SIGPIPE, nullptr, &current) == 0 && current.sa_handler == SIG_DFL)
    std::signal(SIGPIPE, SIG_IGN);
  uv_loop_init(&loop_);
  loop_.data = this;
  uv_prepare_init(&loop_, &prepare_);
  uv_check_init(&loop_, &check_);
  uv_idle_init(&loop_, &idle_);
  const auto once_a_turn = [](auto* handle) { static_cast<Impl*>(handle->loop->data)->turn(); };
  uv_prepare_start(&prepare_, once_a_turn);
  uv_check_start(&check_, once_a_turn);
  uv_async_init(&loop_, &async_,
                [](uv_async_t* handle) { static_cast<Impl*>(handle->loop->data)->run_posted(); });
  uv_unref(base(prepare_));
  uv_unref(base(check_));
  uv_unref(base(async_));
}

UvLoop::Impl::~Impl() {
  for (Conn& conn : conns_) {
    if (conn.live && conn.attempt != nullptr) drop(*conn.attempt);
    conn.live = false;  // so that no handler is found any more
  }
  for (Listener& listener : listeners_) close_sockets(listener);
  for (Socket* socket : std::vector<Socket*>(sockets_.begin(), sockets_.end())) {
    if (!socket->closing) flush(*socket);  // the last words of this turn; may itself close a broken one
    if (!socket->closing) destroy(*socket);
  }
  for (auto& timer : timers_) uv_close(base(timer->handle), nullptr);
  for (uv_handle_t* handle : {base(prepare_), base(check_), base(idle_), base(async_)})
    uv_close(handle, nullptr);
  while (uv_loop_close(&loop_) == UV_EBUSY) uv_run(&loop_, UV_RUN_ONCE);
}

TimePoint UvLoop::Impl::now() const {
  if (clock_stale_ || !running_) {
    now_ = TimePoint(Duration(static_cast<std::int64_t>(uv_hrtime())));
    clock_stale_ = false;
  }
  return now_;
}

// Timers: a libuv timer each, kept and used again.

TimerId UvLoop::Impl::arm(TimePoint at, TimerHandler& handler) {
  if (free_timers_.empty()) {
    auto& timer = timers_.emplace_back(std::make_unique<Timer>());
    timer->impl = this;
    timer->id = {static_cast<std::uint32_t>(timers_.size() - 1), 1};
    uv_timer_init(&loop_, &timer->handle);
    timer->handle.data = timer.get();
    free_timers_.push_back(timer->id.slot);
  }
  Timer& timer = *timers_[free_timers_.back()];
  free_timers_.pop_back();
  timer.handler = &handler;
  timer.at = at;
  start_timer(timer);
  return timer.id;
}

void UvLoop::Impl::start_timer(Timer& timer) {
  // libuv counts whole milliseconds from a time it read earlier, so it may wake us a little early: see
  // fire().
  uv_update_time(&loop_);
  const std::int64_t wait = timer.at.time_since_epoch().count() - static_cast<std::int64_t>(uv_hrtime());
  const std::uint64_t millis = wait <= 0 ? 0 : static_cast<std::uint64_t>((wait - 1) / 1'000'000 + 1);
  uv_timer_start(
      &timer.handle,
      [](uv_timer_t* handle) {
        auto& fired = *static_cast<Timer*>(handle->data);
        fired.impl->fire(fired);
      },
      millis, 0);
}

void UvLoop::Impl::fire(Timer& timer) {
  const Event event(*this);
  if (now() < timer.at) return start_timer(timer);
  TimerHandler& handler = *timer.handler;
  const TimerId id = timer.id;
  free_timer(timer);
  handler.on_timer(id);
}

void UvLoop::Impl::free_timer(Timer& timer) {
  timer.handler = nullptr;
  if (++timer.id.generation == 0) timer.id.generation = 1;
  free_timers_.push_back(timer.id.slot);
}

void UvLoop::Impl::disarm(TimerId id) {
  if (!id || id.slot >= timers_.size()) return;
  Timer& timer = *timers_[id.slot];
  if (timer.id != id || timer.handler == nullptr) return;
  uv_timer_stop(&timer.handle);
  free_timer(timer);
}

// Listening.

Result<Network::Listening> UvLoop::Impl::listen(const Address& address, ListenerHandler& handler) {
  const auto failure = [&](int status) {
    const bool not_ours = status == UV_EADDRNOTAVAIL || status == UV_EAI_NONAME || status == UV_EAI_NODATA;
    const ErrorKind other = status == UV_EADDRINUSE ? ErrorKind::in_use : ErrorKind::network;
    return Error{not_ours ? ErrorKind::not_found : other, "cannot listen on", to_string(address),
                 in_words(status), ""};
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
    // A port that is free for the first address may be taken for the second: then another one is tried.
    for (int tries = address.port == 0 && targets.size() > 1 ? free_port_tries : 1; tries > 0; --tries) {
      std::uint16_t port = address.port;
      status = bind_all(id, targets, port, listener);
      if (status == 0) return started(id, port, handler);
      close_sockets(listener);
      if (status != UV_EADDRINUSE) break;
    }
    if (status == UV_EADDRINUSE)
      break;  // in use is an answer; only a family that is not there leads to the next
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
    return Error{ErrorKind::network, "cannot listen on", "socket " + std::to_string(fd), in_words(status),
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

// Binds all targets on one port (the first one's, where `port` is 0). Addresses of a family that this machine
// does not have are left out as long as one remains.
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

// Listens, if what came before (`status`) went well; else, or if it cannot, the socket goes.
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
  ConnectionHandler& handler = listeners_[from.id.slot].handler->on_accepted(id, Address(socket->peer));
  Conn* conn = find(id);
  if (conn == nullptr) return;  // not wanted
  if (conn->handler == nullptr) conn->handler = &handler;
  if (!conn->paused) read_on(*socket);
}

// Connections.

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
  starting_.push_back(id);  // begins at the loop's top level, from where a failure may be reported
  want_turn();
  return id;
}

void UvLoop::Impl::send(ConnId id, ByteSpan bytes) {
  Conn* conn = find(id);
  if (conn == nullptr || bytes.empty()) return;
  if (conn->attempt != nullptr) {
    conn->attempt->early.append(as_text(bytes));
    return;
  }
  Socket& socket = *conn->socket;
  socket.out.append(as_text(bytes));
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

// Attempts.

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
        auto& asked = *static_cast<Attempt*>(lookup->data);
        asked.impl.looked_up(asked, result, found);
      },
      attempt.address.host.c_str(), nullptr, &hints);
  if (status != 0) return fail(attempt, ErrorKind::network, in_words(status));
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
  if (status != 0) return fail(attempt, ErrorKind::network, in_words(status));
  try_next(attempt);
}

void UvLoop::Impl::try_next(Attempt& attempt) {
  while (attempt.next < attempt.targets.size()) {
    const sockaddr_storage& target = attempt.targets[attempt.next];
    // One silent address must not use up the time of those after it.
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
  fail(attempt, ErrorKind::network, in_words(attempt.last_failure));
}

void UvLoop::Impl::connected(Socket& socket, int status) {
  if (socket.closing) return;  // given up; libuv only says so
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
    socket.out = std::move(attempt.early);
    mark_dirty(socket);
  }
  disarm(attempt.timer);
  delete &attempt;
  if (!conn.paused) read_on(socket);
  conn.handler->on_connected(id);
}

void UvLoop::Impl::attempt_timed_out(Attempt& attempt) {
  attempt.timer = {};
  attempt.last_failure = UV_ETIMEDOUT;
  if (attempt.socket != nullptr) destroy(*std::exchange(attempt.socket, nullptr));
  if (now() < attempt.deadline && attempt.next < attempt.targets.size()) return try_next(attempt);
  fail(attempt, ErrorKind::timeout, "no answer within " + to_words(now() - attempt.started));
}

void UvLoop::Impl::fail(Attempt& attempt, ErrorKind kind, std::string why) {
  const ConnId id = attempt.id;
  const Error error{kind, "cannot connect to", to_string(attempt.address), std::move(why), ""};
  ConnectionHandler& handler = *find(id)->handler;
  drop(attempt);
  handler.on_closed(id, error);
}

// Ends the attempt and its id, and tells nobody.
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

// Sockets.

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

// Once a turn.

// Runs before the loop waits and after it has waited, so that what one turn queued leaves in it.
void UvLoop::Impl::turn() {
  const Event event(*this);
  const std::vector<ConnId> starting = std::exchange(starting_, {});
  for (const ConnId id : starting) {
    if (Conn* conn = find(id); conn != nullptr) start(*conn->attempt);
  }
  flushing_.swap(dirty_);
  for (std::size_t i = 0; i < flushing_.size(); ++i) {
    Socket* socket = flushing_[i];
    if (socket == nullptr) continue;
    flushing_[i] = nullptr;
    socket->dirty = false;
    flush(*socket);
  }
  flushing_.clear();
  // What the handlers above have queued waits for the next turn, which is then not to wait for the outside.
  if (dirty_.empty() && starting_.empty()) uv_idle_stop(&idle_);
}

void UvLoop::Impl::run_posted() {
  const Event event(*this);
  std::vector<std::function<void()>> batch;
  {
    const std::lock_guard lock(posted_mutex_);
    batch.swap(posted_);
  }
  for (const auto& work : batch) work();
}

// The public face.

UvLoop::UvLoop() : impl_(std::make_unique<Impl>()) {}
UvLoop::~UvLoop() = default;

void UvLoop::run() {
  impl_->running_ = true;
  impl_->clock_stale_ = true;
  uv_run(&impl_->loop_, UV_RUN_DEFAULT);
  impl_->running_ = false;
}

void UvLoop::stop() { uv_stop(&impl_->loop_); }

void UvLoop::post(std::function<void()> work) {
  {
    const std::lock_guard lock(impl_->posted_mutex_);
    impl_->posted_.push_back(std::move(work));
  }
  uv_async_send(&impl_->async_);
}

TimePoint UvLoop::now() const { return impl_->now(); }
TimerId UvLoop::arm(TimePoint at, TimerHandler& handler) { return impl_->arm(at, handler); }
void UvLoop::disarm(TimerId timer) { impl_->disarm(timer); }
Result<Network::Listening> UvLoop::listen(const Address& address, ListenerHandler& handler) {
  return impl_->listen(address, handler);
}
Result<Network::Listening> UvLoop::listen_on(int socket, ListenerHandler& handler) {
  return impl_->listen_on(socket, handler);
}
void UvLoop::unlisten(ListenerId listener) { impl_->unlisten(listener); }
ConnId UvLoop::connect(const Address& address, TimePoint deadline, ConnectionHandler& handler) {
  return impl_->connect(address, deadline, handler);
}
void UvLoop::hand_over(ConnId conn, ConnectionHandler& handler) {
  if (Impl::Conn* found = impl_->find(conn); found != nullptr) found->handler = &handler;
}
void UvLoop::send(ConnId conn, ByteSpan bytes) { impl_->send(conn, bytes); }
std::size_t UvLoop::unsent(ConnId conn) const {
  const Impl::Conn* found = impl_->find(conn);
  if (found == nullptr) return 0;
  return found->attempt != nullptr ? found->attempt->early.size() : Impl::unsent(*found->socket);
}
void UvLoop::pause_reading(ConnId conn, bool paused) { impl_->pause_reading(conn, paused); }
void UvLoop::close(ConnId conn) { impl_->close(conn); }
std::uint64_t UvLoop::next() { return impl_->random_(); }
uv_loop_s* UvLoop::native() { return &impl_->loop_; }

}  // namespace dlaunch
