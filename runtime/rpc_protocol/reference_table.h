// Which workers refer to which values, as one worker knows it: the state machine of remote references.
//
// A value lives at its owner. Every worker with handles of its own to the value counts as one holder, which
// it reports to the owner: "add" when it gets its first handle, "drop" when its last one is gone. Each time
// it begins to hold it takes a higher epoch, and the owner follows the highest epoch that it has seen of each
// worker. So these messages may come late, in any order and repeatedly.
//
// A reference is passed to another worker within a message of the program, with a token. Until the receiver
// reports the token as settled, the sender keeps a handle: so the owner always knows one holder. The receiver
// settles a token when the owner has confirmed it as a holder. If a sender learns that its message may be
// lost, it asks for the token: a receiver that has not got it will reject the message, should it still come,
// and settles.
//
// A worker that has died holds nothing, and settles everything.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace dlaunch::internal {

using WorkerId = std::uint32_t;

// Of a value; never used again.
struct ReferenceId {
  WorkerId owner = 0;
  WorkerId creator = 0;
  std::uint64_t number = 0;  // of the creator's

  auto operator<=>(const ReferenceId&) const = default;  // NOLINT(modernize-use-nullptr): its own mistake
};

// Between workers. Each is sent until it is acknowledged, or the receiver is dead; but "renew" now and then
// (reference_leases.h).
struct ReferenceMessage {
  enum class Kind : std::uint8_t { add = 1, drop, settled, ask, renew };
  Kind kind = Kind::add;
  ReferenceId id = {};       // add, drop
  std::uint64_t number = 0;  // add, drop: the epoch; settled, ask: the token

  bool operator==(const ReferenceMessage&) const = default;
};
inline constexpr std::size_t reference_message_size = 25;  // bytes
std::string to_bytes(const ReferenceMessage& message);
std::optional<ReferenceMessage> parse_reference_message(std::string_view bytes);

// What the caller of ReferenceTable is to do.
struct SendReference {  // repeatedly, until on_acknowledged() or on_dead()
  WorkerId to;
  ReferenceMessage message;
};
struct ReferenceReady {  // the owner knows this worker as a holder: the handles may be used
  ReferenceId id;
};
struct ReferenceBroken {  // the value is gone: its owner is dead, or never had it
  ReferenceId id;
};
struct DestroyValue {  // this worker owns it, and no worker refers to it
  ReferenceId id;
};
using ReferenceAction = std::variant<SendReference, ReferenceReady, ReferenceBroken, DestroyValue>;

class ReferenceTable {
 public:
  using Actions = std::vector<ReferenceAction>;

  explicit ReferenceTable(WorkerId self) : self_(self) {}

  // --- Handles of this worker. Each hold is followed by one release.

  // A new value of this worker, with one handle.
  ReferenceId create();
  // A new value of another worker, with one handle. The request that creates it carries the epoch, and has
  // the effect of "add": created() or creation_failed() comes.
  struct Creation {
    ReferenceId id;
    std::uint64_t epoch;
  };
  Creation create_at(WorkerId owner);
  void created(const ReferenceId& id, Actions& actions);
  // It is unknown whether the owner has created it: it will be dropped.
  void creation_failed(const ReferenceId& id, Actions& actions);
  // REQUIRES, as the next two: there is a handle.
  void hold(const ReferenceId& id);
  void release(const ReferenceId& id, Actions& actions);
  // For a message to that worker, another one. Returns the token. REQUIRES: is_ready().
  std::uint64_t pass(const ReferenceId& id, WorkerId to);
  // A message with tokens for that worker may be lost.
  void ask(std::uint64_t token, Actions& actions);

  // --- What comes from other workers

  // A request to create a value of this worker. False: it is to be rejected.
  bool on_create(WorkerId from, const ReferenceId& id, std::uint64_t epoch);
  // A reference in a message of the program. If it returns true, there is one more handle, and ReferenceReady
  // or ReferenceBroken comes, perhaps at once. False: the message is to be rejected.
  bool on_passed(WorkerId from, const ReferenceId& id, std::uint64_t token, Actions& actions);
  // Returns the acknowledgement: of "add", whether this worker has the value; else true.
  bool on_message(WorkerId from, const ReferenceMessage& message, Actions& actions);
  void on_acknowledged(WorkerId by, const ReferenceMessage& message, bool answer, Actions& actions);
  // That worker has died. Nothing comes from it any more.
  void on_dead(WorkerId worker, Actions& actions);

  [[nodiscard]] bool has(const ReferenceId& id) const { return entries_.contains(id); }
  [[nodiscard]] bool is_ready(const ReferenceId& id) const;
  // What is left: values that live here, references to others', tokens that are not settled.
  [[nodiscard]] std::size_t owned() const { return owned_; }
  [[nodiscard]] std::size_t held() const { return entries_.size() - owned(); }
  [[nodiscard]] std::size_t unsettled() const { return passes_.size(); }
  // Other workers that this one has to reach now and then: owners of values that it uses, and receivers of
  // tokens that are not settled.
  [[nodiscard]] std::set<WorkerId> needed() const;
  // Other workers that use values of this one.
  [[nodiscard]] std::set<WorkerId> users() const;

 private:
  enum class State : std::uint8_t { joining, ready, broken };
  struct Holder {
    std::uint64_t epoch = 0;
    bool holds = false;
  };
  struct Token {
    WorkerId from;
    std::uint64_t number;
    auto operator<=>(const Token&) const = default;  // NOLINT(modernize-use-nullptr): as above
  };
  // A value that this worker owns or refers to.
  struct Entry {
    std::size_t handles = 1;
    State state = State::joining;
    std::uint64_t epoch = 0;             // of this worker, if it is not the owner
    std::vector<Token> unsettled;        // received, and not settled yet
    std::map<WorkerId, Holder> holders;  // at the owner
  };
  struct Pass {
    ReferenceId id;
    WorkerId to;
  };
  using Place = std::map<ReferenceId, Entry>::iterator;

  std::pair<Place, bool> add(const ReferenceId& id);
  void settle(Entry& entry, Actions& actions);
  void end_if_unused(Place at, Actions& actions);
  void break_up(Place at, Actions& actions);
  void unpin(WorkerId to, std::uint64_t token, Actions& actions);
  bool on_add(WorkerId from, const ReferenceMessage& message);
  void on_drop(WorkerId from, const ReferenceMessage& message, Actions& actions);
  void on_ask(WorkerId from, std::uint64_t token, Actions& actions);

  const WorkerId self_;
  std::uint64_t last_number_ = 0;
  std::uint64_t last_epoch_ = 0;
  std::uint64_t last_token_ = 0;
  std::map<ReferenceId, Entry> entries_;
  std::size_t owned_ = 0;                 // of these
  std::map<std::uint64_t, Pass> passes_;  // by token
  std::set<Token> received_;              // and not settled
  std::set<Token> rejected_;              // asked for before they came
  std::set<ReferenceId> never_;           // dropped before they were created
  std::set<WorkerId> dead_;
};

}  // namespace dlaunch::internal
