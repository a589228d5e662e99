#include "store/loop/uv_loop.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uv.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include "store/loop/uv_loop_impl.h"

namespace dlaunch::store {

namespace {
constexpr const char* no_loop = "cannot make an event loop";

// libuv takes as many for a first loop: if it gets only some of them, it may end the process.
void require_descriptors() {
  std::array<int, 6> fds{};
  std::size_t made = 0;
  while (made < fds.size() && (fds.at(made) = eventfd(0, EFD_CLOEXEC)) >= 0) ++made;
  const int error = errno;
  for (std::size_t i = 0; i < made; ++i) ::close(fds.at(i));
  if (made < fds.size()) throw std::system_error(error, std::system_category(), no_loop);
}
}  // namespace

UvLoop::Impl::Impl() {
  // A peer that has gone is an error of the write, not the end of the process. An existing handler is kept.
  struct sigaction current {};
  if (sigaction(SIGPIPE, nullptr, &current) == 0 && current.sa_handler == SIG_DFL)
    std::signal(SIGPIPE, SIG_IGN);
  init_loop();
  uv_prepare_init(&loop_, &prepare_);
  uv_check_init(&loop_, &check_);
  uv_idle_init(&loop_, &idle_);
  const auto once_a_turn = [](auto* handle) { static_cast<Impl*>(handle->loop->data)->turn(); };
  uv_prepare_start(&prepare_, once_a_turn);
  uv_check_start(&check_, once_a_turn);
  uv_unref(base(prepare_));
  uv_unref(base(check_));
  uv_unref(base(async_));
}

// libuv's one handle that needs a descriptor, too.
void UvLoop::Impl::init_loop() {
  require_descriptors();
  int status = uv_loop_init(&loop_);
  if (status != 0) throw std::system_error(-status, std::system_category(), no_loop);
  loop_.data = this;
  status = uv_async_init(&loop_, &async_,
                         [](uv_async_t* handle) { static_cast<Impl*>(handle->loop->data)->run_posted(); });
  if (status == 0) return;
  uv_loop_close(&loop_);
  throw std::system_error(-status, std::system_category(), no_loop);
}

UvLoop::Impl::~Impl() {
  for (Conn& conn : conns_) {
    if (conn.live && conn.attempt != nullptr) drop(*conn.attempt);
    conn.live = false;  // no handler is found any more
  }
  for (Listener& listener : listeners_) close_sockets(listener);
  for (Socket* socket : std::vector<Socket*>(sockets_.begin(), sockets_.end())) {
    if (!socket->closing) flush(*socket);  // the last bytes of this turn; may itself close a broken one
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

// Timers: each has a libuv timer, which is reused.

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
  // libuv counts whole milliseconds from a time that it read earlier, so it may fire a little early: see
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

// Once a turn.

// Runs before and after the loop waits, so that bytes queued in one turn leave in that turn.
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
  // Bytes that the handlers above have queued leave in the next turn, which must not wait for events.
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

// The public interface.

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
std::size_t UvLoop::unsent(ConnId conn) const {
  const Impl::Conn* found = impl_->find(conn);
  if (found == nullptr) return 0;
  return found->attempt != nullptr ? found->attempt->early.size() : Impl::unsent(*found->socket);
}
std::size_t UvLoop::unsent_memory(ConnId conn) const {
  const Impl::Conn* found = impl_->find(conn);
  if (found == nullptr || found->socket == nullptr) return 0;
  return found->socket->out.memory() + found->socket->in_flight.memory();
}
std::size_t UvLoop::unsent_memory() const { return impl_->unsent_memory_; }
void UvLoop::drop_remains() { impl_->drop_remains(); }
void UvLoop::pause_reading(ConnId conn, bool paused) { impl_->pause_reading(conn, paused); }
void UvLoop::close(ConnId conn) { impl_->close(conn); }
std::uint64_t UvLoop::next() { return impl_->random_(); }
uv_loop_s* UvLoop::native() { return &impl_->loop_; }

}  // namespace dlaunch::store
