// Point-to-point messages of one group: sends and receives matched by rank and tag.
//
// Why not a transport's post_send and post_recv: they need the sender, the slot and the longest length in
// advance, check no deadline unless a thread waits, and cannot report whether they have completed. Here a
// thread of the group handles what arrives, matches it, and completes the Work (envelope.h has the messages).
// A call or an arriving envelope starts the thread, since a rank that has sent may leave before this one
// calls anything. After `idle_limit` without work the thread ends; the next call or envelope starts another.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "dlaunch/tensor.h"
#include "dlaunch/transport.h"
#include "dlaunch/work.h"
#include "runtime/point_to_point/envelope.h"
#include "runtime/point_to_point/matching.h"
#include "runtime/point_to_point/outbox.h"
#include "runtime/point_to_point/pending_messages.h"
#include "runtime/point_to_point/thread_on_demand.h"
#include "runtime/point_to_point/transfers.h"

namespace dlaunch::internal {

// Any thread may call.
class Messenger {
 public:
  explicit Messenger(Transport& transport);
  // Ends the operations that still run with an error. REQUIRES: drain() was called or the transport was
  // aborted.
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  // Both return at once, or throw DistNetworkError if the transport has ended. The Work of a short send may
  // complete before the receive is posted. Messages with one tag from one rank are received in the order of
  // the sends. `src` -1: from any rank; of several messages, the one that arrived first.
  Work send(const Tensor& tensor, int dst, Tag tag, Deadline deadline);
  Work recv(const Tensor& tensor, int src, Tag tag, Deadline deadline);
  // A receive that another messenger may take. Returns at once, or throws as recv().
  void post(PostedReceive receive);

  // Returns when the completed sends have arrived, or the deadline has passed. No operation may start
  // afterwards.
  void flush(Deadline deadline) noexcept;
  // The same for all sends, and for data under way. What has not arrived then ends with an error; if it is
  // data under way, the transport is aborted.
  void drain(Deadline deadline) noexcept;

 private:
  // An offered message.
  struct Outgoing {
    Tensor tensor;
    int to;
    Tag tag;
    Deadline deadline;
    WorkSource source;
  };
  // A receive that has accepted a short message.
  struct ClearedReceive {
    PostedReceive receive;
    int from;
  };
  struct Peer {
    Outbox outbox;
    int credits = credits_at_start;
    int taken = 0;  // contents received since the last credit
    bool left = false;
    std::exception_ptr unreachable;  // why no more envelopes can be sent to it
  };
  using Actions = std::vector<std::function<void()>>;  // run when no lock is held

  static constexpr std::chrono::milliseconds idle_limit{1000};

  void start_on_envelope();
  void take_in();
  bool take_one_in(AnySourceReceive& any_receive, std::span<const std::byte> block);
  [[nodiscard]] bool is_idle();
  [[nodiscard]] bool awaits_blocks() const;
  [[nodiscard]] bool is_closing();
  Outbox::Blocks handle_block(int peer, std::span<const std::byte> block, Actions& actions);
  void handle(int peer, const Envelope& envelope, std::span<const std::byte> content, Actions& actions);
  void handle_cts(int peer, const Envelope& envelope, Actions& actions);
  void handle_data(int peer, const Envelope& envelope, std::span<const std::byte> content, Actions& actions);
  void arrive(ArrivedMessage message, Actions& actions);
  void deliver(const PostedReceive& receive, const ArrivedMessage& message, Actions& actions);
  void transfer(const Transfers::Route& route, std::unique_ptr<Transfer> data, Deadline deadline,
                const WorkSource& source);
  void return_credit(int peer);
  void post_envelopes(int peer, Actions& actions);
  [[noreturn]] void end_for_departed(int peer);
  [[nodiscard]] bool all_peers_left() const;
  [[nodiscard]] bool has_departed(int peer) const;
  void on_peer_left(int peer, Actions& actions);
  void give_up(int peer, const std::string& reason, const WorkSource& source);
  void expire(Actions& actions);
  void fail_all(const std::exception_ptr& error);
  [[nodiscard]] Deadline next_deadline();
  void wake_if_before(Deadline deadline);

  Transport& transport_;
  const int rank_;

  std::mutex mutex_;
  std::condition_variable changed_;  // a message was handled
  // protected by mutex_
  std::vector<Peer> peers_;
  Matching matching_;
  PendingMessages<Outgoing> outgoing_;
  PendingMessages<ClearedReceive> cleared_;
  std::uint64_t last_number_ = 0;
  std::exception_ptr ended_;                 // why no more operations are possible
  AnySourceReceive* any_receive_ = nullptr;  // the thread waits for it
  Deadline waits_until_ = Deadline::max();
  bool closing_ = false;

  Transfers transfers_;                           // used with and without mutex_; lock mutex_ first
  ThreadOnDemand thread_{[this] { take_in(); }};  // last: it uses all of the above
};

}  // namespace dlaunch::internal
