// One connection to another worker: messages in both directions. It never blocks, but for drive().
//
// Its bytes travel through its socket, or, between two workers of one host, through rings in memory that both
// map. Then the socket carries nothing more, and its end shows that the other process has ended. Over TCP the
// blocks of long messages may travel on further connections (side_links.h).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/base/function_ref.h"
#include "runtime/rpc/looking_pays.h"
#include "runtime/rpc/memory_offer.h"
#include "runtime/rpc/side_links.h"
#include "runtime/rpc_protocol/message_reader.h"
#include "runtime/rpc_protocol/send_queue.h"
#include "runtime/shared_memory/byte_rings.h"
#include "runtime/sockets/descriptor.h"
#include "runtime/sockets/handshake.h"

namespace dlaunch::internal {

// Any thread.
class Link {
 public:
  // What comes first on the connection: nothing, or an offer of memory (memory_offer.h), to be taken or
  // refused.
  enum class Offer : std::uint8_t { none, taken, refused };

  // `poll`: an epoll, whose events for this connection have the token.
  Link(Descriptor socket, int poll, std::uint64_t token, Offer offer = Offer::none)
      : socket_(std::move(socket)), poll_(poll), token_(token), offer_(offer) {}
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  [[nodiscard]] std::uint64_t token() const { return token_; }
  // The other side has taken this memory. Before anything is sent or read.
  void use(std::unique_ptr<SharedRings> shared);
  [[nodiscard]] bool shares_memory() const { return rings() != nullptr; }
  // From now on the epoll reports events.
  void watch();
  // Its further connections. The epoll reports their messages as its own.
  SideLinks& sides();
  // One of them has ended, some time ago: the next read() ends the connection.
  [[nodiscard]] bool has_lost_side() const;

  // Sends what there is room for at once; the rest follows when there is room. Does nothing more than keep
  // the message if the connection is lost: the reader finds that. Returns whether all is sent.
  bool send(RpcMessage message);
  // Over a socket: what is sent until release() may go together.
  void hold();
  void release();
  [[nodiscard]] bool is_held() const { return is_held_; }
  // There may be room again. Returns whether all is sent now.
  bool on_writable();

  // Reads all that has arrived. One thread at a time does it; others return at once and leave it to that one.
  // Calls the handler with the messages in order, and, once, with the reason why the connection has ended.
  // `hung_up`: the epoll has reported the end of the connection.
  struct Handler {
    FunctionRef<void(std::vector<RpcMessage>& messages)> on_messages;
    FunctionRef<void(const std::string& why)> on_end;
    FunctionRef<void()> on_drained = {};  // all is sent that waited for room; only of drive()
  };
  void read(bool hung_up, const Handler& handler);

  // Reads on the calling thread what arrives, until it is done(), the deadline, or the end of the connection.
  // Returns at once if another thread reads. So the thread that waits for an answer is woken for it, and no
  // other one.
  struct Driving {
    FunctionRef<bool()> done;
    Deadline until;
    bool may_look = false;  // for some time before it sleeps
    // At the end: whether a thread will look again, or call stop_looking(), within a moment.
    FunctionRef<bool()> comes_back = {};
  };
  void drive(const Handler& handler, const Driving& driving);
  [[nodiscard]] bool is_driven() const { return is_driven_; }
  // Whether a thread has driven it since the last call. One thread at a time calls it.
  [[nodiscard]] bool was_driven() {
    const std::uint64_t drives = drives_;
    return drives != std::exchange(drives_before_, drives);
  }

  // --- For a thread that looks at several connections

  // From now on the other side need not wake this one, nor the epoll a thread.
  void look();
  // Whether there is something to read, or, with memory, room that was waited for.
  [[nodiscard]] bool has_something() const;
  // From now on a thread is woken by the epoll. True: there is something already, which the epoll does not
  // report.
  bool stop_looking();
  // For those that keep lists of such connections.
  std::atomic<bool> is_looked_at = false;
  std::atomic<bool> is_left = false;

  // Ends the connection: both sides find it ended.
  void end();

  // The memory of the callers of these messages is not read from now on; those of which no byte was sent will
  // not be sent. Returns their numbers.
  std::unordered_set<std::uint64_t> withdraw(std::span<const std::uint64_t> numbers);
  // The numbers of the messages of which no byte was sent.
  [[nodiscard]] std::unordered_set<std::uint64_t> untouched() const;

  // Writes what is queued, until the deadline at most.
  void flush(Deadline deadline);

  // The worker to which this one sends its calls here. None: the other side does, and is `caller` once its
  // hello has come. Only for the handler's calls.
  std::optional<std::uint32_t> callee;
  std::optional<std::uint32_t> caller;
  bool within_host = false;  // then the connection ends only with the other process
  ProcessId pair = {};       // what both sides call it, for further connections
  std::atomic<bool> has_asked_for_sides = false;

 private:
  static constexpr std::size_t most_kept = 512;  // places for messages that arrive
  // So many messages are held at most: those that one system call sends.
  static constexpr std::size_t most_held = 32;

  [[nodiscard]] ByteRings* rings() const { return rings_.load(std::memory_order_acquire); }
  void report_events();
  [[nodiscard]] bool may_send_at_once(const RpcMessage& message) const;
  bool send_at_once(RpcMessage message);
  void write();
  std::size_t write_some(std::span<const std::span<const std::byte>> pieces);
  bool after_write();
  std::size_t send_some(std::span<const std::span<const std::byte>> pieces);
  std::optional<std::size_t> put_some(ByteRings& rings, std::span<const std::span<const std::byte>> pieces);
  void break_off();
  void wake_by_event() const;
  std::optional<std::string> read_some(std::vector<RpcMessage>& messages, bool& is_empty);
  std::optional<std::string> read_socket(std::vector<RpcMessage>& messages, bool& is_empty);
  std::optional<std::string> read_rings(ByteRings& rings, std::vector<RpcMessage>& messages, bool& is_empty);
  std::optional<std::string> read_offer(bool& is_empty);
  void read_all(const Handler& handler);
  void finish_striped(std::vector<RpcMessage>& messages, std::optional<std::string>& why);
  void stop_reading(const Handler& handler);
  void drive_rings(ByteRings& rings, const Handler& handler, const Driving& driving);
  void drive_socket(const Handler& handler, const Driving& driving);
  void look_at_socket(bool on);
  [[nodiscard]] short await_socket(std::chrono::milliseconds limit) const;

  const Descriptor socket_;
  const int poll_;
  const std::uint64_t token_;
  std::unique_ptr<SharedRings> shared_;
  std::atomic<ByteRings*> rings_ = nullptr;

  std::shared_ptr<SideLinks> owned_sides_;
  std::atomic<SideLinks*> sides_ = nullptr;  // null: there are none

  mutable std::mutex write_mutex_;
  // protected by write_mutex_; waits_for_room_ and is_held_ are read without it, too
  SendQueue queue_;
  std::atomic<bool> waits_for_room_ = false;
  bool broken_ = false;
  bool is_looked_at_socket_ = false;   // so the epoll need not report what arrives
  std::atomic<bool> is_held_ = false;  // release() comes

  std::atomic<int> read_requests_ = 0;
  std::atomic<bool> hung_up_ = false;
  std::atomic<bool> is_driven_ = false;
  std::atomic<std::uint64_t> drives_ = 0;  // ever
  std::uint64_t drives_before_ = 0;        // for was_driven()
  // Only the reading thread.
  Offer offer_;
  LookingPays looking_pays_;
  MessageReader reader_;
  std::vector<RpcMessage> arrived_;
  bool ended_ = false;
};

}  // namespace dlaunch::internal
