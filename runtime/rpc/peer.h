// The calls of this worker to one other worker, and the connection on which they are sent. It is made when
// the first call needs it, and again after it was lost.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "dlaunch/future.h"
#include "runtime/base/function_ref.h"
#include "runtime/rpc/call_log.h"
#include "runtime/rpc/link.h"
#include "runtime/rpc/worker_contact.h"
#include "runtime/rpc_protocol/call_table.h"

namespace dlaunch::internal {

// Any thread.
class Peer final : public future_detail::Helper {
 public:
  // What became of a worker that has left; continues "the worker".
  static constexpr const char* has_ended = "has ended its remote calls";
  struct Hooks {
    std::function<void(Peer&)> connect;  // then on_connected() or fail_all() comes; does not block
    // A long message has travelled, or travels, on the connection. Does not block.
    std::function<void(const WorkerContact&, const std::shared_ptr<Link>&)> add_sides;
    std::function<void(Deadline)> wake_at;  // then expire() comes
    std::function<void(std::vector<CallTable::Ended>&)> on_ended;
    std::function<void(std::uint32_t worker, const codec::Bytes& result)>
        on_late_result;  // of a call that had ended
    // Reads the connection on the calling thread, until it is done() or the time has come.
    std::function<void(const std::shared_ptr<Link>&, const FunctionRef<bool()>& done, Deadline until)> drive;
    CallLog* log;
  };
  // REQUIRES: the hooks may be called as long as this lives.
  Peer(WorkerContact worker, const Hooks& hooks);
  // What is known of the worker. Valid as long as this lives.
  [[nodiscard]] const WorkerContact& worker() const { return *worker_.load(std::memory_order_acquire); }
  // What is not known yet is known from now on. False: another name or host was known.
  bool learn(const WorkerContact& worker);
  [[nodiscard]] bool is_closed() const;
  // The worker has ended its remote calls, or the connection was lost or not made.
  [[nodiscard]] bool is_lost() const { return is_lost_; }

  // Sends the call. If too much waits for this worker's answers, waits first; until the deadline at most.
  void begin(CallTable::Call call, codec::Bytes body);

  void on_connected(std::shared_ptr<Link> link);
  // All that was queued is sent.
  void on_drained(const Link& link);
  // Answers, or the goodbye of the worker, on that connection.
  void on_messages(const Link& link, std::span<RpcMessage> messages);
  // Ends the calls if this is the connection on which they were sent; nullptr: in any case. `why` continues
  // "the worker".
  void fail_all(const Link* link, const std::string& why);
  // From now on every call fails so at once.
  void close(const std::string& why);
  void expire(Deadline now);
  // The thread that waits for an answer reads the connection itself, if no other one does.
  void help(const future_detail::State& state, Deadline until) override;

  // "worker ps (rank 2) on host b: 'add', 'sub'"; empty: no call waits.
  [[nodiscard]] std::string waiting_calls() const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  std::unordered_set<std::uint64_t> withdraw(std::span<const std::uint64_t> numbers);
  bool await_room(Lock& lock, const CallTable::Call& call);
  void send(RpcMessage message);
  void mark_sent();
  void on_answer(const Link& link, RpcMessage& message, std::vector<CallTable::Ended>& ended);
  void consider_sides(std::size_t bytes);
  void deliver(Lock& lock, std::vector<CallTable::Ended> ended);

  const Hooks& hooks_;
  std::atomic<const WorkerContact*> worker_;  // the last of known_
  std::atomic<bool> is_lost_ = false;

  mutable std::mutex mutex_;
  std::condition_variable room_;
  // protected by mutex_
  std::list<WorkerContact> known_;  // all that was known once
  CallTable calls_;
  std::shared_ptr<Link> link_;
  int wait_for_room_ = 0;  // threads
  bool is_connecting_ = false;
  bool has_answered_ = false;          // so the other worker knows the connection
  std::vector<RpcMessage> unsent_;     // for the connection that is being made
  std::vector<std::uint64_t> queued_;  // calls that are on their way to the connection
  std::string closed_;                 // why; empty: it is not
};

}  // namespace dlaunch::internal
