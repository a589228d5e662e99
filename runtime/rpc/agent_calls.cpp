// The calls that an agent makes, and those that it serves, with their answers.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/quick_clock.h"
#include "runtime/rpc/agent.h"

namespace dlaunch::internal {

namespace {

// So many answers over a socket are worth to wait for each other.
constexpr std::size_t fewest_held = 4;

// The call whose function the thread runs, and how long the sending of its answer took, which may wait for
// other threads that send.
struct Running {
  const Responder* call;
  Deadline::duration sending{};
};
thread_local Running* running = nullptr;

const CallFailure abandoned{CallFailure::Kind::exception, "",
                            "the function's future was dropped before it was completed"};

}  // namespace

// --- Answers
// --------------------------------------------------------------------------------------------------

class Agent::LoggedResponder : public Responder {
 public:
  explicit LoggedResponder(std::shared_ptr<Agent> agent) : agent_(std::move(agent)) {}
  CallTag tag;
  // Of the call, until it is served.
  std::uint32_t caller = 0;
  codec::Bytes body;

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
    if (running != nullptr && running->call == this) {
      const Deadline began = QuickClock::now();
      link_->send({kind, number_, std::move(body)});
      running->sending = QuickClock::now() - began;
    } else {
      link_->send({kind, number_, std::move(body)});
    }
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
    agent()->finish(ended);
    agent()->done(1);
  }

  const std::uint64_t number_;
};

// --- Calls of this worker
// -------------------------------------------------------------------------------------

void Agent::call(std::uint32_t worker, std::string_view function, codec::Bytes body,
                 std::chrono::milliseconds timeout, std::shared_ptr<CallReceiver> receiver) {
  busy_ += made;
  ++calls_so_far_;
  const Deadline deadline = timeout.count() == 0 ? Deadline::max() : deadline_after(timeout);
  CallTable::Call call{function, body.size(), deadline, timeout, std::move(receiver)};
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
    number = calls_to_self_.next_number();
    call.tag = log_.begin({.is_served = false,
                           .peer = self_.rank,
                           .worker = self_.name,
                           .function = call.function,
                           .number = number,
                           .bytes = body.size()});
    log_.advance(call.tag);
    calls_to_self_.begin(std::move(call));
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
    PollingThreads::Task run_;
  };
  threads_->post([callback = std::make_unique<Callback>(shared_from_this(), std::move(task))]() mutable {
    callback.reset();
  });
}

// --- Calls of other workers
// -----------------------------------------------------------------------------------

void Agent::take_calls(const std::shared_ptr<Link>& link, std::vector<RpcMessage>& messages) {
  std::vector<PollingThreads::Task> tasks;
  tasks.reserve(messages.size() + 1);
  for (RpcMessage& message : messages) {
    if (message.kind == PartHead::hello) {
      if (!on_hello(link, message.body.front)) return link->end();
      continue;
    }
    if (message.kind == PartHead::goodbye) continue;
    if (message.kind != PartHead::request || !link->caller) return link->end();
    take_call(*link->caller, std::move(message.body), message.number,
              std::make_shared<RemoteResponder>(shared_from_this(), link, message.number), tasks);
  }
  if (tasks.empty()) return;
  const bool are_short = times_.are_short();
  if (are_short) hold_answers(link, tasks);
  threads_->post(std::move(tasks), are_short);
  if (are_short) relieve_soon();
}

void Agent::take_call(std::uint32_t caller, codec::Bytes body, std::uint64_t number,
                      std::shared_ptr<LoggedResponder> responder, std::vector<PollingThreads::Task>& tasks) {
  ++busy_;
  ++calls_so_far_;
  if (ending_ || rejects_) return responder->fail({CallFailure::Kind::ending, "", ""});
  LoggedResponder& kept = *responder;
  IncomingCall call{caller, std::move(body), std::move(responder)};
  const auto function = observer_.on_arrival ? observer_.on_arrival(call) : std::string_view();
  if (!function) return;
  const WorkerContact& from = peer(caller).worker();
  kept.tag = log_.begin({.is_served = true,
                         .peer = from.rank,
                         .worker = from.name,
                         .function = *function,
                         .number = number,
                         .bytes = call.body.size()});
  kept.caller = caller;
  kept.body = std::move(call.body);
  tasks.emplace_back([this, one = std::static_pointer_cast<LoggedResponder>(
                                std::move(call.responder))]() mutable { run_call(std::move(one)); });
}

void Agent::run_call(std::shared_ptr<LoggedResponder> call) {
  log_.advance(call->tag);
  Running here{call.get()};
  Running* const before = std::exchange(running, &here);
  IncomingCall served{call->caller, std::move(call->body), std::move(call)};
  const FunctionTimes::Begin began = times_.begin();
  serve_(std::move(served));
  if (times_.end(began, here.sending)) threads_->gather();
  running = before;
}

// Answers of several functions that run one after the other are sent together.
void Agent::hold_answers(const std::shared_ptr<Link>& link, std::vector<PollingThreads::Task>& tasks) {
  if (tasks.size() < fewest_held || link->shares_memory()) return;
  link->hold();
  tasks.emplace_back([link] { link->release(); });
}

void Agent::release_answers() {
  std::vector<std::shared_ptr<Link>> held;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [token, link] : links_)
      if (link->is_held()) held.push_back(link);
  }
  for (const auto& link : held) link->release();
}

// The receivers of calls that have ended get to know it.
void Agent::finish(std::vector<CallTable::Ended>& ended) {
  if (ended.empty()) return;
  {
    CallLog::Ends ends(log_);
    for (const CallTable::Ended& one : ended) {
      const auto* const result = std::get_if<codec::Bytes>(&one.outcome);
      ends.add(one.tag, result != nullptr, result != nullptr ? result->size() : 0);
    }
  }
  for (CallTable::Ended& one : ended) one.receiver->finish(std::move(one.outcome));
  done(ended.size() * made);
}

}  // namespace dlaunch::internal
