#include "runtime/rpc/agent.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/base/log.h"
#include "runtime/base/quick_clock.h"
#include "runtime/base/start_thread.h"
#include "runtime/shared_memory/processors.h"
#include "runtime/sockets/dial.h"
#include "runtime/sockets/host_socket.h"
#include "store/base/random.h"

namespace dlaunch::internal {

namespace {

constexpr std::uint64_t timer_token = PollingThreads::own_token + 1;
constexpr std::uint64_t listener_token = timer_token + 1;
constexpr std::uint64_t host_listener_token = listener_token + 1;

constexpr auto between_checks = std::chrono::milliseconds(200);
// A function that takes longer than was expected delays others for twice this time at most.
constexpr auto relief_time = std::chrono::microseconds(250);
// What the thread has been woken by.
enum Wakes : unsigned { by_nothing = 0, by_timer = 1, by_other = 2 };
thread_local unsigned woken = by_nothing;

// At the end, queued messages are written within this time.
constexpr auto flush_limit = std::chrono::milliseconds(200);

}  // namespace

// --- Beginning
// ------------------------------------------------------------------------------------------------

std::shared_ptr<Agent> Agent::make(const Options& options) {
  return std::shared_ptr<Agent>(new Agent(options));
}

Agent::Agent(const Options& options)
    : on_host_(options.on_host),
      in_memory_(options.on_host && options.in_memory),
      connections_(options.connections),
      threads_(std::make_shared<PollingThreads>(options.threads)),
      timer_([] { return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC); }),
      self_{options.name, options.id, options.host, {}, options.rank, getpid()},
      log_({options.page, options.rank, options.name, options.job_rank, options.generation}),
      hooks_{
          [this](Peer& peer) { connect(peer); },
          [this](const WorkerContact& worker, const std::shared_ptr<Link>& link) { add_sides(worker, link); },
          [this](Deadline deadline) { wake_at(deadline); },
          [this](std::vector<CallTable::Ended>& ended) { finish(ended); },
          [this](std::uint32_t worker, const codec::Bytes& result) {
            if (observer_.on_late_result) observer_.on_late_result(worker, result);
          },
          [this](const std::shared_ptr<Link>& link, const FunctionRef<bool()>& done, Deadline until) {
            drive(link, done, until);
          },
          &log_},
      last_token_(host_listener_token),
      calls_to_self_("this worker"),
      timer_at_(Deadline::max().time_since_epoch().count()),
      expires_at_(timer_at_.load()) {
  if (!timer_.is_open()) throw DistBackendError("cannot make a timer for remote calls");
  Listener listener = listen_at(options.address);
  self_.devices = options.devices;
  self_.processors = usable_processor_set();
  processors_ = self_.processors;
  self_.contact = {random_bytes(process_id_size), options.address, listener.port, random_bytes(key_size)};
  listener_.emplace(std::move(listener.socket));
  if (on_host_) host_listener_.emplace(listen_on_host(self_.contact.id));
}

void Agent::start(const std::vector<WorkerContact>& workers, Serve serve, Observer observer) {
  serve_ = std::move(serve);
  observer_ = std::move(observer);
  for (const WorkerContact& worker : workers) peers_.add(worker, hooks_);
  threads_->watch(timer_.get(), timer_token);
  threads_->watch(listener_->get(), listener_token);
  if (host_listener_ && host_listener_->is_open())
    threads_->watch(host_listener_->get(), host_listener_token);
  for (const WorkerContact& worker : workers)
    if (worker.host == self_.host) add_neighbours(1, worker.processors);
  threads_->start([self = shared_from_this()](std::uint64_t token,
                                              std::uint32_t events) { self->on_event(token, events); },
                  [this](const FunctionRef<bool()>& is_needed) { look(is_needed); });
}

// --- Connections
// ----------------------------------------------------------------------------------------------

void Agent::on_event(std::uint64_t token, std::uint32_t events) {
  woken |= token == timer_token ? by_timer : by_other;
  if (token == timer_token) return on_timer();
  if (token == listener_token) return accept_connections(*listener_);
  if (token == host_listener_token) return accept_connections(*host_listener_);
  const std::shared_ptr<Link> link = find_link(token);
  if (!link) return authenticate(token);
  if (link->on_writable() && link->callee) peer(*link->callee).on_drained(*link);
  constexpr std::uint32_t end = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
  if ((events & (EPOLLIN | end)) != 0) read(link, (events & end) != 0);
  // The other side has woken this one, and would not do it again.
  if (link->shares_memory() && link->stop_looking()) attend(link);
  if (may_look_) looked_at_.add(link);
}

void Agent::read(const std::shared_ptr<Link>& link, bool hung_up) {
  const auto on_some = [&](std::vector<RpcMessage>& messages) { on_messages(link, messages); };
  const auto on_end = [&](const std::string& why) { lose(link, why); };
  link->read(hung_up, {on_some, on_end});
}

void Agent::drive(const std::shared_ptr<Link>& link, const FunctionRef<bool()>& done, Deadline until) {
  const auto on_some = [&](std::vector<RpcMessage>& messages) { on_messages(link, messages); };
  const auto on_end = [&](const std::string& why) { lose(link, why); };
  const auto on_drained = [&] { peer(*link->callee).on_drained(*link); };
  bool will_come_back = false;
  const auto comes_back = [&] { return will_come_back = times_.are_short(); };
  link->drive({on_some, on_end, on_drained}, {done, until, may_look_, comes_back});
  if (!will_come_back) return;
  looked_at_.leave(link);
  relieve_soon();
}

void Agent::attend(const std::shared_ptr<Link>& link) {
  if (link->on_writable() && link->callee) peer(*link->callee).on_drained(*link);
  read(link, false);
}

void Agent::look(const FunctionRef<bool()>& is_needed) {
  if (std::exchange(woken, by_nothing) == by_timer) return;
  const auto attending = [this](const std::shared_ptr<Link>& link) { attend(link); };
  const auto comes_back = [this] { return are_short(); };
  looked_at_.look(is_needed, comes_back, attending);
}

void Agent::on_messages(const std::shared_ptr<Link>& link, std::vector<RpcMessage>& messages) {
  if (!link->callee) return take_calls(link, messages);
  peer(*link->callee).on_messages(*link, messages);
}

// Whether functions are expected to be short. If one is not, relieve() comes.
bool Agent::are_short() {
  if (!times_.are_short()) return false;
  relieve_soon();
  return true;
}

void Agent::relieve_soon() { set_timer(QuickClock::now() + relief_time); }

// A function may take longer than was expected: its thread neither looks at connections, nor runs what waits,
// nor sends the answers of others.
void Agent::relieve() {
  const auto attending = [this](const std::shared_ptr<Link>& link) { attend(link); };
  release_answers();
  const bool looks_again = looked_at_.relieve(attending);
  const bool runs_again = threads_->relieve(times_.are_short());
  if (looks_again || runs_again) relieve_soon();
}

void Agent::lose(const std::shared_ptr<Link>& link, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    links_.erase(link->token());
  }
  remove_pair(link);
  looked_at_.remove(link);
  link->end();
  if (link->callee) {
    peer(*link->callee)
        .fail_all(link.get(),
                  link->within_host ? "died" : "died, or the connection to it was lost (" + why + ")");
  }
  const std::optional<std::uint32_t> worker = link->callee ? link->callee : link->caller;
  if (worker && observer_.on_link_lost) observer_.on_link_lost(*worker);
}

// --- Time
// -----------------------------------------------------------------------------------------------------

// on_timer() looks for what has expired then.
void Agent::wake_at(Deadline deadline) {
  const Deadline::rep at = deadline.time_since_epoch().count();
  Deadline::rep before = expires_at_;
  while (at < before && !expires_at_.compare_exchange_weak(before, at)) {
  }
  set_timer(deadline);
}

void Agent::set_timer(Deadline deadline) {
  if (deadline.time_since_epoch().count() >= timer_at_.load()) return;
  const std::lock_guard lock(timer_mutex_);
  if (deadline.time_since_epoch().count() >= timer_at_.load()) return;
  timer_at_ = deadline.time_since_epoch().count();
  const auto ns = std::max<std::int64_t>(ns_of(deadline), 1);  // 0 would turn the timer off
  itimerspec when{};
  when.it_value.tv_sec = ns / 1'000'000'000;
  when.it_value.tv_nsec = ns % 1'000'000'000;
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void Agent::on_timer() {
  timer_at_ = Deadline::max().time_since_epoch().count();
  relieve();
  const Deadline next{Deadline::duration(expires_at_.load())};
  if (!has_passed(next)) return set_timer(next);
  expires_at_ = Deadline::max().time_since_epoch().count();
  const Deadline now = std::chrono::steady_clock::now();
  end_those_without_sides();
  for (Peer* const peer : peers_.all()) peer->expire(now);
  std::vector<CallTable::Ended> ended;
  {
    const std::lock_guard lock(mutex_);
    const auto all_sent = [](std::span<const std::uint64_t>) { return std::unordered_set<std::uint64_t>(); };
    calls_to_self_.expire(now, all_sent, ended);
    if (calls_to_self_.next_deadline() != Deadline::max()) wake_at(calls_to_self_.next_deadline());
    pending_.drop_expired();
    if (!pending_.empty()) wake_at(deadline_after(PendingConnections::handshake_timeout));
  }
  finish(ended);
  accept_connections(*listener_);  // if there were no descriptors before
  if (host_listener_ && host_listener_->is_open()) accept_connections(*host_listener_);
}

// --- Ending
// ---------------------------------------------------------------------------------------------------

void Agent::done(std::uint64_t calls) {
  const std::uint64_t left = busy_.fetch_sub(calls) - calls;
  if (left != 0 && (!rejects_soon_ || left >= made)) return;
  const std::lock_guard lock(idle_mutex_);
  idle_.notify_all();
}

// Returns when fewer calls wait or run, or at the deadline: false.
bool Agent::wait_until_few(std::uint64_t few, Deadline deadline, const LossCheck& check) {
  std::unique_lock lock(idle_mutex_);
  while (busy_ >= few) {
    if (has_passed(deadline)) return false;
    idle_.wait_until(lock, std::min(deadline, deadline_after(between_checks)));
    lock.unlock();
    if (check) check();
    lock.lock();
  }
  return true;
}

bool Agent::wait_until_idle(Deadline deadline, const LossCheck& check) {
  return wait_until_few(1, deadline, check);
}

bool Agent::wait_for_calls(Deadline deadline) {
  rejects_soon_ = true;
  return wait_until_few(made, deadline, {});
}

std::string Agent::waiting_calls() const {
  std::string all;
  for (Peer* const peer : peers_.all()) {
    const std::string calls = peer->waiting_calls();
    if (!calls.empty()) all += (all.empty() ? "" : "; ") + calls;
  }
  return all;
}

bool Agent::end(const std::string& why, Deadline deadline) {
  ending_ = true;
  std::map<std::uint64_t, std::shared_ptr<Link>> links;
  {
    const std::lock_guard lock(mutex_);
    links = links_;
    pending_.drop_all();
  }
  // Those that connect are refused now. The descriptors are closed later: a thread may use them.
  if (listener_) shutdown(listener_->get(), SHUT_RDWR);
  if (host_listener_) shutdown(host_listener_->get(), SHUT_RDWR);
  for (Peer* const peer : peers_.all()) peer->close(why);
  for (const auto& [token, link] : links) link->send({PartHead::goodbye, 0, ""});
  const Deadline flushed = deadline_after(flush_limit);
  for (const auto& [token, link] : links) link->flush(flushed);
  for (Peer* const peer : peers_.all()) peer->fail_all(nullptr, why);
  bool all_ended = threads_->stop(deadline);
  for (const auto& [token, link] : links) link->end();
  std::shared_ptr<StripeThreads> copying;
  {
    const std::lock_guard lock(mutex_);
    copying = stripe_threads_;
  }
  if (copying && !copying->stop(deadline)) all_ended = false;
  if (all_ended) {
    listener_.reset();
    host_listener_.reset();
    serve_ = nullptr;  // they may own this; find_worker does not, and threads that still connect call it
    observer_.on_arrival = nullptr;
    observer_.on_link_lost = nullptr;
    observer_.on_late_result = nullptr;
  }
  return all_ended;
}

}  // namespace dlaunch::internal
