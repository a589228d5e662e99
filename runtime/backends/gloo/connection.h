// One connection to another process, which all groups of the two processes share.
//
// The thread that sends a short frame writes it, if the kernel accepts it at once. The endpoint's thread
// writes the rest. A long message has at most one part in the queue, and the messages of several groups take
// turns: no message and no short frame waits longer than one part takes.
//
// The memory of a message belongs to the program, which may reclaim it at any time. After that, what is
// missing of a send goes as zeros, which the peer drops, and what arrives for a receive is read and dropped.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/backends/gloo/frame.h"
#include "runtime/backends/gloo/wakeup.h"
#include "runtime/sockets/descriptor.h"
#include "runtime/sockets/handshake.h"
#include "runtime/sockets/keepalive.h"

namespace dlaunch::internal {

class Connection;

// A message to send. Protected by the endpoint's mutex.
struct Outgoing {
  Frame head;                         // of its parts
  const std::byte* memory = nullptr;  // null: reclaimed
  std::size_t size = 0;
  std::size_t queued = 0;  // bytes that became parts
  bool under_way = false;  // a connection has it
  bool is_read = false;    // at this moment, without the mutex
  bool done = false;       // the memory is no longer needed
  Wakeup wakeup;
};

// A message to receive. Protected by the endpoint's mutex.
struct Incoming {
  std::byte* memory = nullptr;  // null: reclaimed
  std::size_t size = 0;
  std::size_t received = 0;  // bytes
  bool is_written = false;   // at this moment, without the mutex
  bool done = false;
  Wakeup wakeup;
};

// Handles received frames. All calls come from the endpoint's thread, with its mutex held.
class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  // Any kind but `data`.
  virtual void on_frame(Connection& connection, const Frame& frame, std::span<const std::byte> bytes) = 0;
  // Returns the message that this part of `frame.length` bytes belongs to, which has room for it; null: no
  // receive.
  virtual std::shared_ptr<Incoming> find_receive(Connection& connection, const Frame& frame) = 0;
  // Asks for a call of Connection::write() on the endpoint's thread: after this call has returned, or when
  // the socket has room again.
  virtual void request_write(Connection& connection) = 0;
  virtual void request_writable(Connection& connection, bool waits) = 0;
  // No thread uses a message's memory without the mutex any more.
  virtual void on_memory_released() = 0;
};

// REQUIRES of all members: the endpoint's mutex is held.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // REQUIRES: `handler` outlives this object; the socket is connected.
  Connection(FrameHandler& handler, Descriptor socket, ProcessId peer, std::uint64_t token);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] const ProcessId& peer() const { return peer_; }
  // The endpoint's name for the connection.
  [[nodiscard]] std::uint64_t token() const { return token_; }
  [[nodiscard]] int socket() const { return socket_.get(); }

  // Called by a thread of the program. Does not wait for the peer, but releases the mutex for a moment. If
  // the connection is lost, it sends nothing.
  void send(EndpointLock& lock, const Frame& frame, std::span<const std::byte> bytes = {});
  void send(EndpointLock& lock, const std::shared_ptr<Outgoing>& message);
  // The same for the endpoint's thread, which writes later: the mutex stays held.
  void queue(const Frame& frame, std::span<const std::byte> bytes = {});
  void queue(const std::shared_ptr<Outgoing>& message);

  // The endpoint's thread: the socket is readable, or writable. The first returns why the connection has
  // ended, or nothing.
  std::optional<std::string> read(EndpointLock& lock);
  void write(EndpointLock& lock);
  void room_came();

  // Whether the peer's host has not answered for too long. Call it once in KeepaliveMonitor::check_interval.
  bool is_silent();

  [[nodiscard]] bool is_lost() const { return lost_; }
  // Stops reading and writing.
  void mark_lost();

  // Writes what the kernel takes now of all that waits; the endpoint's thread writes the rest.
  void write_at_once(EndpointLock& lock);

  // Returns when everything is written or the deadline has passed.
  void flush(EndpointLock& lock, Deadline limit);

 private:
  // A frame in the queue.
  struct Item {
    Frame::Bytes header;
    const std::byte* data = nullptr;  // of a short frame
    std::size_t length = 0;
    std::vector<std::byte> copy = {};        // what `data` points to, unless the sender holds it
    std::shared_ptr<Outgoing> message = {};  // the message of this part
    std::size_t offset = 0;                  // in the message
    bool is_last = false;                    // of a part: `end` follows
    Frame::Bytes end = {};

    [[nodiscard]] std::size_t size() const { return Frame::size + length + (is_last ? Frame::size : 0); }
  };
  static constexpr std::size_t buffer_size = std::size_t{64} * 1024;

  void write_turns(EndpointLock& lock, int turns);
  bool write_once(EndpointLock& lock);
  void leave_to_endpoint();
  void add_part();
  std::size_t gather(std::span<struct iovec> places);
  void consume(std::size_t written);
  void put_back(std::shared_ptr<Outgoing> message);
  void drop_all();
  bool parse();

  FrameHandler& handler_;
  const Descriptor socket_;
  const ProcessId peer_;
  const std::uint64_t token_;
  bool lost_ = false;
  KeepaliveMonitor keepalive_;

  std::deque<Item> queue_;
  std::size_t front_written_ = 0;                   // bytes of the first item
  std::deque<std::shared_ptr<Outgoing>> messages_;  // those without a part in the queue; the next one first
  std::shared_ptr<Outgoing> part_of_;               // the message with a part in the queue
  Item* borrowed_ = nullptr;                        // its data belongs to the sender, which is writing
  bool is_writing_ = false;                         // a thread writes
  int unanswered_ = 0;                              // short frames since the last read
  bool awaits_room_ = false;                        // the endpoint's thread waits for it

  std::unique_ptr<std::byte[]> buffer_;
  std::size_t begin_ = 0;  // start of what was read and not handled
  std::size_t end_ = 0;
  std::size_t missing_ = 0;           // bytes missing of the part that is being read
  std::shared_ptr<Incoming> target_;  // the message of that part
};

}  // namespace dlaunch::internal
