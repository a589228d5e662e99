// One group's transport over the connections of the process, which all groups share (endpoint.h).
//
// Messages go from memory to memory: a receive sends `ready`, then its sender sends the message. A rank that
// receives from any rank notifies all others once, and senders offer their messages.
//
// Leaving: a rank says goodbye to each peer, either in order or with the reason why it gives up. The peer's
// process acknowledges the goodbye, and so everything before it. The connections stay, for other groups. A
// rank that gives up because of another rank names that rank, so that all ranks report the same cause. A
// process that ends at once may lose its goodbye; then its peers see that the connections end.
//
// One group's failure affects no other: its waits end, and frames that still come for it are dropped.
//
// Progress query: a rank that has waited for long asks the others which operation they are in; the endpoint's
// threads answer while the programs are busy.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "dlaunch/transport.h"
#include "runtime/backend/mailbox.h"
#include "runtime/backends/gloo/connection.h"
#include "runtime/backends/gloo/endpoint.h"
#include "runtime/backends/gloo/goodbye_message.h"
#include "runtime/backends/gloo/slot_matcher.h"
#include "runtime/shared_memory/group_memory.h"
#include "runtime/shared_memory/host_map.h"
#include "runtime/shared_memory/message_rings.h"

namespace dlaunch::internal {

struct UnmapPages {
  std::size_t size = 0;
  void operator()(std::byte* memory) const;
};
// Pages that are never written cost no memory.
using EagerMemory = std::unique_ptr<std::byte, UnmapPages>;

class TcpTransport final : public Transport, private GroupEndpoint {
 public:
  // Connects with all ranks. REQUIRES: no other rank of the group uses `endpoint`. Throws DistNetworkError,
  // DistStoreError or DistBackendError.
  TcpTransport(const BackendContext& context, std::shared_ptr<Endpoint> endpoint);
  // Notifies the others that this rank gives up, unless it has already left.
  ~TcpTransport() override;
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  std::unique_ptr<Transfer> post_send(int peer, std::uint64_t slot,
                                      std::span<const std::byte> bytes) override;
  std::unique_ptr<Transfer> post_recv(int peer, std::uint64_t slot, std::span<std::byte> bytes) override;
  std::unique_ptr<AnySourceReceive> post_recv_any(std::uint64_t slot, std::span<std::byte> bytes) override;
  EagerChannel& eager_channel() override;
  void check() override;
  void abort(const std::string& reason) noexcept override { give_up(reason, -1); }
  void abort_for(int peer, const std::string& reason) noexcept override { give_up(reason, peer); }
  std::vector<int> departed() override;
  void shutdown(Deadline deadline) noexcept override;
  void enter(std::uint64_t number) noexcept override { entered_.store(number, std::memory_order_relaxed); }
  ProgressReport query_progress(std::uint64_t number) override;
  void on_unexpected_message(std::uint64_t slot, std::function<void()> come) override;
  GroupMemory* shared_memory() override { return shared_memory_.get(); }
  const HostMap* hosts() override { return hosts_ ? &*hosts_ : nullptr; }
  MessageRings* message_rings() override { return message_rings_.get(); }

  // What a rank found when it looked for the group's memory on its host.
  struct MemoryOffer {
    std::int32_t maker = -1;     // the rank that made the memory; -1: this rank shares none
    std::uint64_t identity = 0;  // of the memory
    char why[112] = {};          // if it shares none: a clause
  };
  // Looks for it, or makes it (memory_handover.h). Then all ranks exchange their offers, and call
  // share_memory() with those of all by rank: from the next operation on those with the same use it. Throws
  // what context.check throws.
  MemoryOffer find_memory(const BackendContext& context);
  void share_memory(std::span<const MemoryOffer> offers);

 private:
  class SentMessage;
  class ReceivedMessage;
  class AnySourceMessage;
  class TcpEagerChannel;
  class Wait;

  // Messages of the eager channel that are not released, in cells of memory aligned to a cache line.
  struct EagerReceiveBuffer {
    EagerMemory cells;          // mapped at the first message
    std::uint64_t arrived = 0;  // messages in all
    std::uint64_t released = 0;
  };
  struct Peer {
    std::shared_ptr<Connection> connection;  // null for the own rank, and before it is made
    ContextId context_id = 0;                // the group's in that process
    SlotMatcher slots;
    std::unordered_set<std::uint64_t> wanted;  // slots that the peer receives from any rank
    EagerReceiveBuffer eager_received;
    std::uint64_t eager_sent = 0;
    std::uint64_t eager_send_limit = EagerChannel::max_unreceived;
    std::optional<std::uint64_t> answer;  // to the progress query
    bool left = false;                    // in order
    std::string why_left;                 // continues "it has left the group"; may be empty
    bool lost = false;                    // the connection is lost
    std::optional<Deadline> seems_ended_since;
    bool goodbye_sent = false;          // by this rank
    bool goodbye_acknowledged = false;  // by the peer
  };
  // Messages to a slot that is received from any rank.
  struct AnySlot {
    std::deque<int> offers;  // ranks, in order
    AnySourceMessage* open = nullptr;
    std::function<void()> come;  // when there is an offer
  };

  void connect(const BackendContext& context);
  static std::string why_no_memory_is_wanted(std::size_t ranks);
  static HostMap host_map_of(std::span<const MemoryOffer> offers);
  int map_memory(std::span<const Contact> lower_ranks, const BackendContext& context);
  int memory_file() override;
  void check_peer(int rank);
  void find_ended(const GroupMemory& memory);
  void on_frame(Connection& connection, const Frame& frame, std::span<const std::byte> bytes) override;
  std::shared_ptr<Incoming> find_receive(Connection& connection, const Frame& frame) override;
  void on_connection_lost(Connection& connection, const std::string& why) override;
  Peer* sender_of(const Connection& connection, const Frame& frame);
  AnySlot& any_slot(EndpointLock& lock, std::uint64_t slot);
  std::optional<int> accept_offer(std::uint64_t slot);
  void reclaim(Incoming& message);
  void take_eager(Peer& peer, int rank, std::span<const std::byte> bytes);
  void take_goodbye(int rank, std::span<const std::byte> bytes);
  void end_message(Peer& peer, const Frame& frame);

  [[nodiscard]] Peer& peer_of(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Frame frame_to(const Peer& peer, Frame::Kind kind, std::uint64_t number) const;
  void end(const std::string& reason, int blamed);
  void wake_all();
  void throw_if_ended(EndpointLock& lock);
  [[noreturn]] void throw_left(int rank);
  void give_up(const std::string& reason, int blamed) noexcept;
  void leave(const std::string& reason) noexcept;
  void send_reason(EndpointLock& lock);
  void send_goodbye(EndpointLock& lock, const GoodbyeMessage& words);
  void await_goodbye_acks(EndpointLock& lock, Deadline deadline);

  const int rank_;
  const int size_;
  const std::shared_ptr<Endpoint> endpoint_;
  Mailbox to_self_;                         // this rank sends to itself without a connection
  std::atomic<std::uint64_t> entered_ = 0;  // the latest operation

  // protected by the endpoint's mutex
  ContextId context_id_ = 0;
  std::vector<Peer> peers_;  // by rank
  std::map<std::uint64_t, AnySlot> any_slots_;
  std::vector<Wakeup*> waiting_;      // of the group's waiting threads
  std::vector<int> left_;             // ranks that have left in order, in that order
  std::optional<std::string> ended_;  // the first reason
  int blamed_ = -1;                   // the rank that made it end
  bool has_left_ = false;             // the others are notified
  bool progress_queried_ = false;
  Wakeup changed_;  // a goodbye or an answer has come

  std::optional<Descriptor> memory_file_;  // this and the next two: protected by the endpoint's mutex
  bool memory_is_settled_ = false;         // all ranks know what all have found
  std::string why_no_memory_;
  std::vector<Contact> lower_ranks_;  // until the memory is found
  MemoryOffer memory_offer_;
  std::shared_ptr<Segment> segment_;
  std::unique_ptr<GroupMemory> shared_memory_;
  std::unique_ptr<MessageRings> message_rings_;
  std::optional<HostMap> hosts_;  // if some ranks share memory, but not all

  std::unique_ptr<TcpEagerChannel> eager_channel_;
};

}  // namespace dlaunch::internal
