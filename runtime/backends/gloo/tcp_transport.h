// One group's transport over the connections of its processes, which all groups share (endpoint.h).
//
// Messages go from memory to memory: a receive tells its sender that it is ready, then the message is sent.
// Where the receiver takes messages from any rank, it tells all once, and senders offer theirs.
//
// Leaving: a rank says goodbye to each other one, in order or with the reason why it gives up; the process
// there answers when that, and so everything before it, has arrived. The connections stay, for other groups.
// A rank that gives up because of another one names that one, so that all ranks report the same, whoever told
// them. A process that ends at once may take its last words along; then the others see its connections end.
//
// One group's failure harms no other: what waits in it ends, what still comes for it is dropped.
//
// Progress query: a rank that waits in vain asks the others which operation they have come to; the endpoint's
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

namespace dlaunch {

class TcpTransport final : public Transport, private GroupEndpoint {
 public:
  // Connects with all ranks. `endpoint`: no other rank of the group uses it. Throws DistNetworkError,
  // DistStoreError or DistBackendError.
  TcpTransport(const BackendContext& context, std::shared_ptr<Endpoint> endpoint);
  // Tells the others that it gives up, if it has not told them anything.
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

 private:
  class SentMessage;
  class ReceivedMessage;
  class AnySourceMessage;
  class TcpEagerChannel;
  class Wait;

  // What came in by the eager channel and was not released, in cells of memory that begin on a cache line.
  struct EagerReceiveBuffer {
    struct Release {
      void operator()(void* memory) const;
    };
    std::unique_ptr<std::byte, Release> cells;  // from the first message on
    std::uint64_t arrived = 0;                  // messages ever
    std::uint64_t released = 0;
  };
  struct Peer {
    std::shared_ptr<Connection> connection;  // null for the own rank, and before it is made
    ContextId context_id = 0;                // the group's there
    SlotMatcher slots;
    std::unordered_set<std::uint64_t> wanted;  // slots that it takes from any rank
    EagerReceiveBuffer eager_received;
    std::uint64_t eager_sent = 0;
    std::uint64_t eager_send_limit = EagerChannel::max_unreceived;
    std::optional<std::uint64_t> answer;  // to the progress query
    bool left = false;                    // in order
    std::string why_left;                 // what follows "it has left the group"; may be empty
    bool lost = false;                    // its connection
    bool goodbye_sent = false;            // that this rank goes
    bool goodbye_acknowledged = false;    // so
  };
  // Of messages to a slot from any rank.
  struct AnySlot {
    std::deque<int> offers;  // ranks, in order
    AnySourceMessage* open = nullptr;
    std::function<void()> come;  // when there is an offer
  };

  void connect(const BackendContext& context);
  void on_frame(Connection& connection, const Frame& frame, std::span<const std::byte> bytes) override;
  std::shared_ptr<Incoming> find_receive(Connection& connection, const Frame& frame) override;
  void on_connection_lost(Connection& connection, const std::string& why) override;
  Peer* sender_of(const Connection& connection, const Frame& frame);
  AnySlot& any_slot(EndpointLock& lock, std::uint64_t slot);
  std::optional<int> accept_offer(std::uint64_t slot);
  void take_back(Incoming& message);
  void take_eager(Peer& peer, int rank, std::span<const std::byte> bytes);
  void take_goodbye(int rank, std::span<const std::byte> bytes);
  void end_message(Peer& peer, const Frame& frame);

  [[nodiscard]] Peer& peer_of(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Frame frame_to(const Peer& peer, Frame::Kind kind, std::uint64_t number) const;
  void end(const std::string& reason, int blamed);
  void wake_all();
  void throw_if_ended() const;
  [[noreturn]] void throw_left(int rank);
  void give_up(const std::string& reason, int blamed) noexcept;
  void leave(const std::string& reason) noexcept;
  void send_goodbye(EndpointLock& lock, const GoodbyeMessage& words);
  void await_goodbye_acks(EndpointLock& lock, Deadline deadline);

  const int rank_;
  const int size_;
  const std::shared_ptr<Endpoint> endpoint_;
  Mailbox to_self_;                         // there is no connection to the own rank
  std::atomic<std::uint64_t> entered_ = 0;  // the latest operation

  // protected by the endpoint's mutex
  ContextId context_id_ = 0;
  std::vector<Peer> peers_;  // by rank
  std::map<std::uint64_t, AnySlot> any_slots_;
  std::vector<Wakeup*> waiting_;      // of threads that wait in this group
  std::vector<int> left_;             // ranks that have left in order, in the order of their leaving
  std::optional<std::string> ended_;  // why; the first reason
  int blamed_ = -1;                   // the rank because of which it ended
  bool has_left_ = false;             // the others are told
  bool progress_queried_ = false;
  Wakeup changed_;  // a goodbye was heard, a question answered

  std::unique_ptr<TcpEagerChannel> eager_channel_;
};

}  // namespace dlaunch
