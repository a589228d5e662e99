// What UvLoop's sources share: its tables of timers, listeners and connections. Each source has the functions
// of one of them: uv_loop.cpp the loop and its timers, uv_listeners.cpp, uv_connections.cpp, uv_sockets.cpp.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "store/base/out_queue.h"
#include "store/base/random.h"
#include "store/loop/uv_loop.h"

namespace dlaunch::store {

struct UvLoop::Impl {
  static constexpr std::size_t read_buffer_size = 64 * 1024;

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
    explicit Socket(Impl& owner) : impl(owner), out(owner.unsent_memory_), in_flight(owner.unsent_memory_) {}
    void on_timer(TimerId) override { impl.linger_on(*this); }

    Impl& impl;
    uv_tcp_t tcp{};
    uv_connect_t connect{};
    uv_write_t write{};
    uv_shutdown_t shutdown{};
    ConnId id;  // none if the connection has ended and the socket only sends its rest
    Address peer;
    OutQueue out;        // queued, not yet given to libuv
    OutQueue in_flight;  // lent to libuv until the write's callback
    TimerId linger_timer;
    int linger_times = 0;           // the timer was armed
    std::size_t linger_unsent = 0;  // when it was armed last
    bool writing = false;
    bool dirty = false;  // in the list of sockets to flush
    bool over_high_water = false;
    bool lingering = false;
    bool shut = false;
    bool peer_done = false;
    bool closing = false;
  };

  // A connect() under way: resolves the name, then tries one address after the other.
  struct Attempt final : TimerHandler {
    explicit Attempt(Impl& owner) : impl(owner) {}
    void on_timer(TimerId) override { impl.attempt_timed_out(*this); }

    Impl& impl;
    ConnId id;  // none: given up during the lookup
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
    std::string early;  // sent before the connection was made
  };

  struct Conn {
    std::uint32_t generation = 1;
    bool live = false;
    bool paused = false;
    ConnectionHandler* handler = nullptr;
    Socket* socket = nullptr;    // once open
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
  void init_loop();
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
  template <class Bytes>
  void send(ConnId id, const Bytes& bytes);
  void pause_reading(ConnId id, bool paused);
  void close(ConnId id);
  void abort(ConnId id);
  void drop_remains();

  // attempts
  void start(Attempt& attempt);
  void looked_up(Attempt& attempt, int status, addrinfo* found);
  void try_next(Attempt& attempt);
  void connected(Socket& socket, int status);
  void attempt_timed_out(Attempt& attempt);
  void fail(Attempt& attempt, int status, const std::string& why);
  void drop(Attempt& attempt);

  // If a handler runs out of memory, its connection ends; no exception may leave through libuv. REQUIRES: the
  // connection is open.
  template <class Call>
  void call_handler(ConnId id, Call&& call) {
    try {
      call(*find(id)->handler);
    } catch (const std::bad_alloc&) {
      end_without_memory(id);
    }
  }

  // sockets
  Socket* new_socket();
  void tune(Socket& socket);
  void read_on(Socket& socket);
  void received(Socket& socket, ssize_t count);
  static void report_closed(ConnectionHandler& handler, ConnId id, const Address& peer, int status);
  void end_without_memory(ConnId id);
  void lost(Socket& socket, int status);
  void mark_dirty(Socket& socket);
  void flush(Socket& socket);
  void write_rest(Socket& socket, std::size_t done);
  void written(Socket& socket, int status);
  void drained(Socket& socket);
  void linger(Socket& socket);
  void arm_linger(Socket& socket);
  void linger_on(Socket& socket);
  void destroy(Socket& socket, bool resets = false);
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
  uv_idle_t idle_{};  // active while the loop must not wait for the outside
  uv_async_t async_{};
  bool running_ = false;
  mutable bool clock_stale_ = true;
  mutable TimePoint now_;

  std::vector<std::unique_ptr<Timer>> timers_;
  std::vector<std::uint32_t> free_timers_;
  std::vector<Listener> listeners_;
  std::vector<Conn> conns_;
  std::vector<std::uint32_t> free_conns_;
  std::size_t unsent_memory_ = 0;        // of all sockets' queues
  std::unordered_set<Socket*> sockets_;  // all, with those that linger
  std::vector<ConnId> starting_;
  std::vector<Socket*> dirty_;
  std::vector<Socket*> flushing_;
  std::unique_ptr<char[]> read_buffer_ = std::make_unique_for_overwrite<char[]>(read_buffer_size);
  std::mt19937_64 random_{random_u64()};

  std::mutex posted_mutex_;
  std::vector<std::function<void()>> posted_;  // protected by posted_mutex_
};

}  // namespace dlaunch::store
