// The remote references of one worker: values that live here, handles to values of others, and the messages
// by which the workers agree which are in use (rpc_protocol/reference_table.h).
//
// One thread sends again what was not acknowledged, finds out whether workers that cannot be reached have
// died, and renews leases. It exists while there is such work.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dlaunch/future.h"
#include "dlaunch/rref.h"
#include "runtime/rpc/agent.h"
#include "runtime/rpc_protocol/call_message.h"
#include "runtime/rpc_protocol/reference_leases.h"
#include "runtime/rpc_protocol/reference_table.h"

namespace dlaunch::internal {

// Any thread. Owned by shared pointers: handles may live longer than the remote calls.
class References : public std::enable_shared_from_this<References> {
 public:
  using Value = rpc::rpc_detail::Value;
  using Handle = ReferenceHandle;

  // The calls by which the workers keep references; functions of programs have other names.
  static constexpr std::string_view message_function = reference_function;
  static constexpr std::string_view create_function = "dlaunch.create";
  static constexpr std::string_view fetch_function = "dlaunch.fetch";

  // `lease`: workers that do not reach each other for so long are dead to each other
  // (rpc_protocol/reference_leases.h); 0: for ever.
  References(std::shared_ptr<Agent> agent, std::chrono::milliseconds lease)
      : agent_(std::move(agent)), table_(agent_->self().id), leases_(lease) {}
  References(const References&) = delete;
  References& operator=(const References&) = delete;
  // No more messages are sent.
  void end();

  // --- Handles
  // A value of this worker.
  std::shared_ptr<Handle> own(Value value);
  // A value that another worker is to create. `request` gets what it is sent; then confirmed() or
  // not_confirmed() is to be called.
  std::shared_ptr<Handle> create_at(std::uint32_t owner, std::string& request);
  void confirmed(const ReferenceId& id, const std::exception_ptr& error);
  // Completed when the owner knows this worker as a holder; with an error if the reference is broken.
  Future<void> ready(const ReferenceId& id);
  void release(const ReferenceId& id);

  // --- Passing
  // Appends the references to a message for that worker. Each must be ready.
  void append(std::string& message, std::span<const std::shared_ptr<Handle>> handles, std::uint32_t to);
  // The message may be lost.
  void ask(std::string_view message);

  // References that have arrived in a message. While this lives they can be read.
  class Arrived {
   public:
    ~Arrived();
    Arrived(const Arrived&) = delete;
    Arrived& operator=(const Arrived&) = delete;
    // A handle to one of them. Throws DistError.
    std::shared_ptr<Handle> handle(const ReferenceId& id) const;

   private:
    friend class References;
    explicit Arrived(std::shared_ptr<References> owner) : owner_(std::move(owner)) {}
    const std::shared_ptr<References> owner_;  // null: there are no ids
    std::vector<ReferenceId> ids_;
  };
  // Null: a sender has given the message up.
  std::shared_ptr<Arrived> arrive(std::uint32_t from, std::span<const PassedReference> references);
  // Those in a message that nobody reads.
  void discard(std::uint32_t from, std::string_view message);
  // Calls `then` when all are ready, or with the error of one. REQUIRES: there are handles until then.
  void when_ready(const std::vector<ReferenceId>& ids, const std::function<void(std::exception_ptr)>& then);

  // --- Calls of other workers
  // The value's future; none: this worker has no such value.
  std::optional<Future<Value>> value(const ReferenceId& id);
  // A request to create a value. None: it is rejected.
  std::optional<Promise<Value>> on_create(std::uint32_t from, const ReferenceId& id, std::uint64_t epoch);
  // The acknowledgement's bytes; none: it is no such message.
  std::optional<std::string> on_message(std::uint32_t from, std::string_view bytes);
  void on_link_lost(std::uint32_t worker);

 private:
  class Acknowledgement;
  class Renewal;

  template <class Change>
  void change(const Change& change);
  void perform(const ReferenceTable::Actions& actions);
  void forget(const ReferenceTable::Actions& actions);
  void count();
  void send(const SendReference& message);
  void retry(const SendReference& message);
  void keep_trying();
  void start_trying();
  [[nodiscard]] bool has_leases() const;
  std::set<std::uint32_t> look_at_leases(std::set<std::uint32_t>& renew);
  void renew(const std::set<std::uint32_t>& workers);
  void bury(const std::set<std::uint32_t>& dead);

  const std::shared_ptr<Agent> agent_;

  std::mutex mutex_;
  // protected by mutex_
  ReferenceTable table_;
  std::map<ReferenceId, Promise<void>> ready_;
  std::map<ReferenceId, Promise<Value>> values_;
  std::vector<SendReference> again_;
  std::map<std::uint32_t, int> suspects_;  // how often they are still looked at
  bool tries_ = false;                     // the thread exists
  ReferenceLeases leases_;
  Deadline next_look_{};
  bool has_users_ = false;          // other workers may use values of this one
  std::set<std::uint32_t> buried_;  // dead to this worker
  bool ended_ = false;
  std::condition_variable changed_;
};

// Copies of an RRef share one.
class ReferenceHandle {
 public:
  ReferenceHandle(std::shared_ptr<References> references, const ReferenceId& id)
      : references_(std::move(references)), id_(id) {}
  ~ReferenceHandle() { references_->release(id_); }
  ReferenceHandle(const ReferenceHandle&) = delete;
  ReferenceHandle& operator=(const ReferenceHandle&) = delete;

  [[nodiscard]] const ReferenceId& id() const { return id_; }
  [[nodiscard]] References& references() const { return *references_; }

 private:
  const std::shared_ptr<References> references_;
  const ReferenceId id_;
};

}  // namespace dlaunch::internal
