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
// So long a function may take without delaying others.
constexpr auto short_time = std::chrono::microseconds(20);
// Functions count as long if a few of the last ones were: a single one may have lost its processor.
constexpr int by_long = 8;
constexpr int most_score = 64;
constexpr auto relief_time = std::chrono::microseconds(500);
// At the end, queued messages are written within this time.
constexpr auto flush_limit = std::chrono::milliseconds(200);

const CallFailure abandoned{CallFailure::Kind::exception, "",
                            "the function's future was dropped before it was completed"};

}  // namespace

// --- Answers
// --------------------------------------------------------------------------------------------------

class Agent::LoggedResponder : public Responder {
 public:
  explicit LoggedResponder(std::shared_ptr<Agent> agent) : agent_(std::move(agent)) {}
  CallTag tag;

 protected:
  // False: the call has its answer already.
  bool begin_answer(bool success, std::size_t bytes) {
    if (answered_.exchange(true)) return false;
    agent_->log_.end(tag, success, bytes);
    return true;
  }
  [[nodiscard]] bool is_answered() const { return answered_; }
  [[nodiscard]] const std::shared_ptr<Agent>& agent() const { return agent_; }

 private:
  const std::shared_ptr<Agent> agent_;
  std::atomic<bool> answered_ = false;
};

class Agent::RemoteResponder final : public LoggedResponder {
 public:
  RemoteResponder(std::shared_ptr<Agent> agent, std::shared_ptr<Link> link, std::uint64_t number)
      : LoggedResponder(std::move(agent)), link_(std::move(link)), number_(number) {}
  ~RemoteResponder() override { RemoteResponder::fail(abandoned); }
  void answer(codec::Bytes result) override { send(PartHead::result, std::move(result)); }
  void fail(const CallFailure& failure) override {
    if (!is_answered()) send(PartHead::failure, to_bytes(failure));
  }

 private:
  void send(PartHead::Kind kind, codec::Bytes body) {
    if (!begin_answer(kind == PartHead::result, body.size())) return;
    link_->send({kind, number_, std::move(body)});
    agent()->done(1);
  }

  const std::shared_ptr<Link> link_;
  const std::uint64_t number_;
};

class Agent::LocalResponder final : public LoggedResponder {
 public:
  LocalResponder(std::shared_ptr<Agent> agent, std::uint64_t number)
      : LoggedResponder(std::move(agent)), number_(number) {}
  ~LocalResponder() override { LocalResponder::fail(abandoned); }
  void answer(codec::Bytes result) override { end(std::move(result)); }
  void fail(const CallFailure& failure) override { end(failure); }

 private:
  void end(CallOutcome outcome) {
    const auto* const result = std::get_if<codec::Bytes>(&outcome);
    if (!begin_answer(result != nullptr, result != nullptr ? result->size() : 0)) return;
    std::vector<CallTable::Ended> ended;
    {
      const std::lock_guard lock(agent()->mutex_);
      agent()->calls_to_self_.answer(number_, std::move(outcome), ended);
    }
    agent()->finish(std::move(ended));
    agent()->done(1);
  }

  const std::uint64_t number_;
};

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
          [this](std::vector<CallTable::Ended> ended) { finish(std::move(ended)); },
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
  neighbours_ = static_cast<std::size_t>(std::ranges::count(workers, self_.host, &WorkerContact::host));
  may_look_ = neighbours_ <= usable_processors();
  threads_->start([self = shared_from_this()](std::uint64_t token,
                                              std::uint32_t events) { self->on_event(token, events); },
                  [this](const FunctionRef<bool()>& is_needed) { look(is_needed); });
}

// --- Calls of this worker
// -------------------------------------------------------------------------------------

void Agent::call(std::uint32_t worker, std::string function, codec::Bytes body,
                 std::chrono::milliseconds timeout, std::shared_ptr<CallReceiver> receiver) {
  busy_ += made;
  ++calls_so_far_;
  const Deadline deadline = timeout.count() == 0 ? Deadline::max() : deadline_after(timeout);
  CallTable::Call call{std::move(function), body.size(), deadline, timeout, std::move(receiver)};
  if (worker == self_.id) return call_self(std::move(call), std::move(body));
  peer(worker).begin(std::move(call), std::move(body));
}

void Agent::call_self(CallTable::Call call, codec::Bytes body) {
  for (codec::Block& block : body.blocks) {  // the caller may be gone before the function ends
    if (block.data.use_count() == 0) block = codec::copy_of(block.data.get(), block.size);
  }
  const Deadline deadline = call.deadline;
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    const std::string function = call.function;
    number = calls_to_self_.begin(std::move(call));
    CallTag& tag = calls_to_self_.tag_of(number);
    tag = log_.begin({.is_served = false,
                      .peer = self_.rank,
                      .worker = self_.name,
                      .function = function,
                      .number = number,
                      .bytes = body.size()});
    log_.advance(tag);
  }
  if (deadline != Deadline::max()) wake_at(deadline);
  std::vector<PollingThreads::Task> tasks;
  take_call(self_.id, std::move(body), number, std::make_shared<LocalResponder>(shared_from_this(), number),
            tasks);
  threads_->post(std::move(tasks));
}

std::shared_ptr<future_detail::Helper> Agent::helper(std::uint32_t worker) {
  return worker == self_.id ? nullptr
                            : std::shared_ptr<future_detail::Helper>(shared_from_this(), &peer(worker));
}

// Also if no thread is left to run it: then the thread does that drops it.
void Agent::post(PollingThreads::Task task) {
  class Callback {
   public:
    Callback(std::shared_ptr<Agent> agent, PollingThreads::Task run)
        : agent_(std::move(agent)), run_(std::move(run)) {
      ++agent_->busy_;
    }
    ~Callback() {
      run_();
      agent_->done(1);
    }
    Callback(const Callback&) = delete;
    Callback& operator=(const Callback&) = delete;

   private:
    const std::shared_ptr<Agent> agent_;
    const PollingThreads::Task run_;
  };
  threads_->post([callback = std::make_shared<Callback>(shared_from_this(), std::move(task))]() mutable {
    callback.reset();
  });
}

// --- Connections
// ----------------------------------------------------------------------------------------------

void Agent::on_event(std::uint64_t token, std::uint32_t events) {
  if (token == timer_token) return on_timer();
  if (token == listener_token) return accept_connections(*listener_);
  if (token == host_listener_token) return accept_connections(*host_listener_);
  const std::shared_ptr<Link> link = find_link(token);
  if (!link) return authenticate(token);
  if (link->on_writable() && link->callee) peer(*link->callee).on_drained(*link);
  constexpr std::uint32_t end = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
  if ((events & (EPOLLIN | end)) != 0) read(link, (events & end) != 0);
  if (!link->shares_memory()) return;
  // The other side has woken this one, and would not do it again.
  if (link->stop_looking()) attend(link);
  if (may_look_) looked_at_.add(link);
}

void Agent::read(const std::shared_ptr<Link>& link, bool hung_up) {
  const auto on_some = [&](std::vector<RpcMessage>& messages) { on_messages(link, messages); };
  const auto on_end = [&](const std::string& why) { lose(link, why); };
  link->on_readable(hung_up, {on_some, on_end});
}

void Agent::drive(const std::shared_ptr<Link>& link, const FunctionRef<bool()>& done, Deadline until) {
  const auto on_some = [&](std::vector<RpcMessage>& messages) { on_messages(link, messages); };
  const auto on_end = [&](const std::string& why) { lose(link, why); };
  const auto on_drained = [&] { peer(*link->callee).on_drained(*link); };
  const auto comes_back = [&] {
    if (!may_look_ || !are_short()) return false;
    looked_at_.leave(link);
    return true;
  };
  link->drive({on_some, on_end, on_drained}, {done, until, may_look_, comes_back});
}

void Agent::attend(const std::shared_ptr<Link>& link) {
  if (link->on_writable() && link->callee) peer(*link->callee).on_drained(*link);
  const auto on_some = [&](std::vector<RpcMessage>& messages) { on_messages(link, messages); };
  const auto on_end = [&](const std::string& why) { lose(link, why); };
  link->read(false, {on_some, on_end});
}

void Agent::look(const FunctionRef<bool()>& is_needed) {
  const auto attending = [this](const std::shared_ptr<Link>& link) { attend(link); };
  const auto comes_back = [this] { return are_short(); };
  looked_at_.look(is_needed, comes_back, attending);
}

void Agent::on_messages(const std::shared_ptr<Link>& link, std::vector<RpcMessage>& messages) {
  std::vector<PollingThreads::Task> tasks;
  for (RpcMessage& message : messages) {
    if (link->callee) {
      peer(*link->callee).on_message(*link, message);
      continue;
    }
    if (message.kind == PartHead::hello) {
      if (!on_hello(link, message.body.front)) return link->end();
      continue;
    }
    if (message.kind == PartHead::goodbye) continue;
    if (message.kind != PartHead::request || !link->caller) return link->end();
    take_call(*link->caller, std::move(message.body), message.number,
              std::make_shared<RemoteResponder>(shared_from_this(), link, message.number), tasks);
  }
  if (!tasks.empty()) threads_->post(std::move(tasks), are_short());
}

void Agent::take_call(std::uint32_t caller, codec::Bytes body, std::uint64_t number,
                      std::shared_ptr<LoggedResponder> responder, std::vector<PollingThreads::Task>& tasks) {
  ++busy_;
  ++calls_so_far_;
  if (ending_ || rejects_) return responder->fail({CallFailure::Kind::ending, "", ""});
  CallTag& tag = responder->tag;
  IncomingCall call{caller, std::move(body), std::move(responder)};
  if (observer_.serve_at_once && observer_.serve_at_once(call)) return;
  const WorkerContact& from = peer(caller).worker();
  tag = log_.begin({.is_served = true,
                    .peer = from.rank,
                    .worker = from.name,
                    .function = observer_.function_of ? observer_.function_of(call) : std::string_view(),
                    .number = number,
                    .bytes = call.body.size()});
  tasks.emplace_back([this, tag, call = std::move(call)]() mutable { run_call(tag, std::move(call)); });
}

void Agent::run_call(const CallTag& tag, IncomingCall call) {
  log_.advance(tag);
  const Deadline began = QuickClock::now();
  serve_(std::move(call));
  const int change = QuickClock::now() - began > short_time ? by_long : -1;
  long_score_ = std::clamp(long_score_ + change, 0, most_score);
}

// Whether functions are expected to be short. If one is not, relieve() comes.
bool Agent::are_short() {
  if (long_score_ > by_long) return false;
  set_timer(QuickClock::now() + relief_time);
  return true;
}

// A function may take longer than was expected: its thread neither looks at connections nor runs what waits.
void Agent::relieve() {
  const auto attending = [this](const std::shared_ptr<Link>& link) { attend(link); };
  looked_at_.stop_looking(attending);
  threads_->relieve();
}

// The receivers of calls that have ended get to know it.
void Agent::finish(std::vector<CallTable::Ended> ended) {
  if (ended.empty()) return;
  for (CallTable::Ended& one : ended) {
    const auto* const result = std::get_if<codec::Bytes>(&one.outcome);
    log_.end(one.tag, result != nullptr, result != nullptr ? result->size() : 0);
    one.receiver->finish(std::move(one.outcome));
  }
  done(ended.size() * made);
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
  finish(std::move(ended));
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
    observer_.serve_at_once = nullptr;
    observer_.on_link_lost = nullptr;
    observer_.on_late_result = nullptr;
  }
  return all_ended;
}

}  // namespace dlaunch::internal
