// The calls to one worker that wait for an answer. Each ends exactly once: by its answer, its deadline, or
// the loss of the connection. No call is ever sent again: the caller learns what is known, and decides.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <variant>
#include <vector>

#include "dlaunch/backend.h"
#include "dlaunch/bytes.h"
#include "runtime/base/function_ref.h"
#include "runtime/rpc_protocol/call_deadlines.h"
#include "runtime/rpc_protocol/call_message.h"
#include "runtime/rpc_protocol/number_table.h"

namespace dlaunch::internal {

// Why there is no answer.
struct NoAnswer {
  enum class Kind : std::uint8_t { timeout, lost };
  Kind kind;
  std::string text;  // a sentence
  bool was_sent = true;
};
// A result's bytes, the callee's failure, or none of both.
using CallOutcome = std::variant<codec::Bytes, CallFailure, NoAnswer>;

// By which the call is known to the log of calls (runtime/rpc/call_log.h).
struct CallTag {
  std::uint64_t record = 0;   // 0: it has none
  std::int64_t began_ns = 0;  // 0: the call is not logged
  std::uint64_t span = 0;     // of the timeline; 0: none
  bool is_served = false;
};

// Who waits for the outcome. finish() is called once.
class CallReceiver {
 public:
  virtual ~CallReceiver() = default;
  virtual void finish(CallOutcome outcome) = 0;
};

class CallTable {
 public:
  // What waits for an answer is limited, and with it what the callee must keep of calls that it cannot run
  // yet. A longer call may be alone.
  static constexpr std::size_t most_calls = 65536;
  static constexpr std::size_t most_bytes = std::size_t{256} * 1024 * 1024;

  // `callee`: for messages: "worker ps (rank 2) on host b".
  explicit CallTable(std::string callee) : callee_(std::move(callee)) {}
  void set_callee(std::string callee) { callee_ = std::move(callee); }

  struct Call {
    std::string_view function;  // lives until the process ends
    std::size_t bytes = 0;
    Deadline deadline = Deadline::max();     // max(): none
    std::chrono::milliseconds timeout = {};  // for messages
    std::shared_ptr<CallReceiver> receiver = {};
    CallTag tag = {};
  };
  // Whether there is room for a call of so many bytes.
  [[nodiscard]] bool has_room(std::size_t bytes) const;
  // Of the call that begins next: higher than all earlier ones.
  [[nodiscard]] std::uint64_t next_number() const { return last_number_ + 1; }
  // Returns the call's number.
  std::uint64_t begin(Call call);

  // Null: it does not wait. Valid until the next call begins.
  [[nodiscard]] Call* find(std::uint64_t number) {
    Waiting* const waiting = calls_.find(number);
    return waiting == nullptr ? nullptr : &waiting->call;
  }

  // A call that has ended: receiver->finish(outcome) is to be called.
  struct Ended {
    std::shared_ptr<CallReceiver> receiver;
    CallOutcome outcome;
    CallTag tag = {};
  };
  // Appends to `ended`. An answer to a call that has ended already is ignored: it came late.
  void answer(std::uint64_t number, CallOutcome outcome, std::vector<Ended>& ended);
  // Sees to it that calls that end are not sent any more, and that nothing of their callers' memory is read;
  // returns those of which no byte has left.
  using Withdraw = FunctionRef<std::unordered_set<std::uint64_t>(std::span<const std::uint64_t> numbers)>;
  void expire(Deadline now, const Withdraw& withdraw, std::vector<Ended>& ended);
  // All calls end. `why`: what happened to the callee, for example "it died".
  void lose(const std::string& why, const Withdraw& withdraw, std::vector<Ended>& ended);

  [[nodiscard]] bool waits(std::uint64_t number) const { return calls_.find(number) != nullptr; }
  [[nodiscard]] std::size_t size() const { return calls_.size(); }
  [[nodiscard]] Deadline next_deadline() const { return deadlines_.next(); }
  [[nodiscard]] const std::string& callee() const { return callee_; }
  // The functions of the calls that wait, for messages: at most a few.
  [[nodiscard]] std::string functions() const;

 private:
  struct Waiting {
    Call call;
    CallDeadlines::Entry deadline;
  };
  Call take(std::uint64_t number);

  std::string callee_;
  NumberTable<Waiting> calls_;
  CallDeadlines deadlines_;
  std::size_t bytes_ = 0;
  std::uint64_t last_number_ = 0;
};

}  // namespace dlaunch::internal
