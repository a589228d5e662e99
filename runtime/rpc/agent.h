// One worker's end of remote calls: it listens, connects with others when they are first called, sends the
// calls of this worker, and hands over those that arrive.
//
// Only processes of the job can connect (sockets/handshake.h). A process without proof costs a descriptor for
// a few seconds, and the number of such connections is bounded.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/rpc/call_log.h"
#include "runtime/rpc/function_times.h"
#include "runtime/rpc/link.h"
#include "runtime/rpc/looked_at_links.h"
#include "runtime/rpc/peer_table.h"
#include "runtime/rpc/polling_threads.h"
#include "runtime/rpc/request.h"
#include "runtime/rpc/worker_contact.h"
#include "runtime/sockets/pending_connections.h"

namespace dlaunch::internal {

// Any thread. Owned by shared pointers: threads that still run a function of the program when it ends have
// one.
class Agent : public std::enable_shared_from_this<Agent> {
 public:
  // Runs a call on a worker thread, and sees to its answer.
  using Serve = std::function<void(IncomingCall call)>;
  // What else is of interest. They do not block.
  struct Observer {
    // A call has arrived. Returns the function that is called, for the log; none: it has served the call
    // itself, on the thread that has read it.
    std::function<std::optional<std::string_view>(const IncomingCall& call)> on_arrival;
    std::function<void(std::uint32_t worker)> on_link_lost;
    std::function<void(std::uint32_t worker, const codec::Bytes& result)> on_late_result;
    // Of workers that come and go: the one with this id; none: none has it, or it has left. It may block, and
    // throws DistError. Null: the workers of start() are all. The agent keeps it until
    // its end: it must not own the agent.
    std::function<std::optional<WorkerContact>(std::uint32_t id)> find_worker;
  };
  struct Options {
    std::string name;
    std::uint32_t id;
    std::uint32_t rank;
    std::string host;
    std::string address;         // to listen at; numeric
    int threads;                 // that run functions
    WorkerDevices devices = {};  // to be published
    bool on_host = true;         // workers of this host use Unix sockets
    bool in_memory = true;       // and memory that both share
    int connections = 4;         // that carry the blocks of long messages over TCP; 1: no further ones
    page::Page* page = nullptr;  // as in CallLog::Options, as the next two
    std::uint16_t generation = 0;
    int job_rank = 0;
  };
  // Listens. Throws DistNetworkError or DistBackendError.
  static std::shared_ptr<Agent> make(const Options& options);
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  [[nodiscard]] const WorkerContact& self() const { return self_; }
  [[nodiscard]] CallLog& log() { return log_; }
  // Calls can arrive from now on. `workers`: those that are known, this one among them. Throws
  // DistBackendError.
  void start(const std::vector<WorkerContact>& workers, Serve serve, Observer observer = {});

  // What is known of the worker, which stays valid. REQUIRES: as for call().
  [[nodiscard]] const WorkerContact& worker(std::uint32_t id) { return peer(id).worker(); }
  // A worker that has come later.
  void learn(const WorkerContact& worker);
  [[nodiscard]] bool knows(std::uint32_t id) const {
    const Peer* const known = peers_.find(id);
    return known != nullptr && !known->worker().name.empty();
  }
  // Calls to it fail from now on.
  void on_left(std::uint32_t id) { peer(id).close(Peer::has_ended); }
  [[nodiscard]] bool has_left(std::uint32_t id) { return peer(id).is_closed(); }
  // Whether its connection was lost, or it has left, since it was last connected.
  [[nodiscard]] bool is_lost(std::uint32_t id) { return peer(id).is_lost(); }

  // REQUIRES: start() was called; the worker exists, or workers come and go. `function` lives until the
  // process ends. `timeout` 0: none.
  void call(std::uint32_t worker, std::string_view function, codec::Bytes body,
            std::chrono::milliseconds timeout, std::shared_ptr<CallReceiver> receiver);
  // For threads that wait for answers of that worker; null: it is this one.
  [[nodiscard]] std::shared_ptr<future_detail::Helper> helper(std::uint32_t worker);
  // Runs it on a worker thread; after end(), on this one.
  void post(PollingThreads::Task task);

  // Returns when no call of this worker waits for an answer, and none of other workers runs here; false: at
  // the deadline. Calls `check` now and then.
  bool wait_until_idle(Deadline deadline, const LossCheck& check);
  // The same for the calls of this worker alone; functions may still run here. Then reject_calls() is called.
  bool wait_for_calls(Deadline deadline);
  // Calls that arrive are rejected from now on, as after end().
  void reject_calls() { rejects_ = true; }
  // The calls that this worker has made or taken so far.
  [[nodiscard]] std::uint64_t calls_so_far() const { return calls_so_far_; }
  // The calls that wait for answers, for messages; empty: none.
  [[nodiscard]] std::string waiting_calls() const;
  // Whether the worker's process is known to have ended.
  [[nodiscard]] static bool is_gone(const WorkerContact& worker);
  // The same, or that it has left. May block.
  [[nodiscard]] bool is_gone(std::uint32_t id);

  // Takes no calls any more, reports that to the others, and ends all threads; those that run a function at
  // the deadline end after it, and it returns false. Calls that still wait end with `why`, which continues
  // "the worker".
  bool end(const std::string& why, Deadline deadline);

 private:
  class LoggedResponder;
  class RemoteResponder;
  class LocalResponder;

  explicit Agent(const Options& options);
  void on_event(std::uint64_t token, std::uint32_t events);
  void accept_connections(const Descriptor& listener);
  void authenticate(std::uint64_t token);
  void on_timer();
  void wake_at(Deadline deadline);
  void set_timer(Deadline deadline);
  std::shared_ptr<Link> add_link(Descriptor socket, std::optional<std::uint32_t> worker, Link::Offer offer);
  std::shared_ptr<Link> find_link(std::uint64_t token);
  void add_sides(const WorkerContact& worker, const std::shared_ptr<Link>& link);
  void add_sides_now(const WorkerContact& worker, Link& link);
  bool add_side(Link& link, Descriptor socket);
  bool take_side(Descriptor& socket, const ProcessId& pair);
  bool add_pair(const std::shared_ptr<Link>& link);
  void remove_pair(const std::shared_ptr<Link>& link);
  std::shared_ptr<StripeThreads> stripe_threads();
  void end_those_without_sides();
  void read(const std::shared_ptr<Link>& link, bool hung_up);
  void drive(const std::shared_ptr<Link>& link, const FunctionRef<bool()>& done, Deadline until);
  void attend(const std::shared_ptr<Link>& link);
  void look(const FunctionRef<bool()>& is_needed);
  void relieve();
  void run_call(std::shared_ptr<LoggedResponder> call);
  bool are_short();
  void relieve_soon();
  void hold_answers(const std::shared_ptr<Link>& link, std::vector<PollingThreads::Task>& tasks);
  void release_answers();
  void on_messages(const std::shared_ptr<Link>& link, std::vector<RpcMessage>& messages);
  void lose(const std::shared_ptr<Link>& link, const std::string& why);
  void take_call(std::uint32_t caller, codec::Bytes body, std::uint64_t number,
                 std::shared_ptr<LoggedResponder> responder, std::vector<PollingThreads::Task>& tasks);
  void take_calls(const std::shared_ptr<Link>& link, std::vector<RpcMessage>& messages);
  void call_self(CallTable::Call call, codec::Bytes body);
  void finish(std::vector<CallTable::Ended>& ended);
  Peer& peer(std::uint32_t id);
  bool find_out(Peer& peer);
  void connect(Peer& peer);
  void connect_now(Peer& peer);
  std::shared_ptr<Link> make_link(const WorkerContact& worker);
  void on_unreachable(Peer& peer, const std::string& why);
  void add_neighbours(std::size_t count, const ProcessorSet& processors);
  bool on_hello(const std::shared_ptr<Link>& link, std::string_view bytes);
  void done(std::uint64_t calls);
  bool wait_until_few(std::uint64_t few, Deadline deadline, const LossCheck& check);

  const bool on_host_;
  const bool in_memory_;
  const int connections_;
  const std::shared_ptr<PollingThreads> threads_;
  const Descriptor timer_;
  std::optional<Descriptor> listener_;
  std::optional<Descriptor> host_listener_;
  WorkerContact self_;
  CallLog log_;
  Serve serve_;
  Observer observer_;
  const Peer::Hooks hooks_;
  PeerTable peers_;

  std::mutex mutex_;
  // protected by mutex_
  std::uint64_t last_token_;
  std::map<std::uint64_t, std::shared_ptr<Link>> links_;  // by token
  std::map<ProcessId, std::weak_ptr<Link>> pairs_;        // those on which a worker has reported its name
  std::shared_ptr<StripeThreads> stripe_threads_;
  PendingConnections pending_;
  CallTable calls_to_self_;

  // Known workers of this host, and the processors that they may use together.
  std::size_t neighbours_ = 0;
  ProcessorSet processors_ = {};

  LookedAtLinks looked_at_;
  std::atomic<bool> may_look_ = false;  // there is a processor for each of them
  FunctionTimes times_;

  std::mutex timer_mutex_;
  std::atomic<Deadline::rep> timer_at_;
  std::atomic<Deadline::rep> expires_at_;  // something does; timer_at_ may be earlier

  std::atomic<std::uint64_t> calls_so_far_ = 0;
  // Calls that wait or run: those of this worker count as `made`.
  static constexpr std::uint64_t made = std::uint64_t{1} << 32U;
  std::atomic<std::uint64_t> busy_ = 0;
  std::atomic<bool> ending_ = false;
  std::atomic<bool> rejects_ = false;
  std::atomic<bool> rejects_soon_ = false;
  std::mutex idle_mutex_;
  std::condition_variable idle_;
};

}  // namespace dlaunch::internal
