// One connection to another process, which all groups of the two processes share.
//
// Short frames are written by the thread that sends them, if the kernel takes them at once; what it does not
// take, and what follows, is written by the endpoint's thread. Of long messages one part at a time is in the
// queue, and those of several groups take turns: none of them, nor a short frame, waits for longer than a
// part takes.
//
// The memory of a message belongs to the program, which may want it back at any time: what is missing then
// is sent as zeros that the other side drops, or is read and dropped.
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

#include "runtime/backends/gloo/descriptor.h"
#include "runtime/backends/gloo/frame.h"
#include "runtime/backends/gloo/handshake.h"
#include "runtime/backends/gloo/keepalive.h"
#include "runtime/backends/gloo/wakeup.h"

namespace dlaunch {

class Connection;

// A message that is sent. Protected by the endpoint's mutex.
struct Outgoing {
  Frame head;                         // of its parts
  const std::byte* memory = nullptr;  // null: given back
  std::size_t size = 0;
  std::size_t queued = 0;  // bytes, as parts
  bool under_way = false;  // given to the connection
  bool is_read = false;    // at this moment, without the mutex
  bool done = false;       // the memory is no longer needed
  Wakeup wakeup;
};

// A message that is received. Protected by the endpoint's mutex.
struct Incoming {
  std::byte* memory = nullptr;  // null: given back
  std::size_t size = 0;
  std::size_t received = 0;  // bytes
  bool is_written = false;   // at this moment, without the mutex
  bool done = false;
  Wakeup wakeup;
};

// What takes the frames in. All calls come from the endpoint's thread, with its mutex held.
class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  // Any kind but `data`.
  virtual void on_frame(Connection& connection, const Frame& frame, std::span<const std::byte> bytes) = 0;
  // The message that this part of `frame.length` bytes belongs to, with room for it; null: nobody wants it.
  virtual std::shared_ptr<Incoming> find_receive(Connection& connection, const Frame& frame) = 0;
  // Connection::write() is to be called on the endpoint's thread: as soon as this call has returned, and when
  // there is room again.
  virtual void request_write(Connection& connection) = 0;
  virtual void request_writable(Connection& connection, bool waits) = 0;
  // A message's memory is no longer used without the mutex.
  virtual void on_memory_released() = 0;
};

// All members are to be called with the endpoint's mutex held.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // REQUIRES: `handler` outlives this object; the socket is connected.
  Connection(FrameHandler& handler, Descriptor socket, ProcessId peer, std::uint64_t token);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] const ProcessId& peer() const { return peer_; }
  // By which the endpoint knows it.
  [[nodiscard]] std::uint64_t token() const { return token_; }
  [[nodiscard]] int socket() const { return socket_.get(); }

  // From a thread of the program. Does not wait for the other side, but lets go of the mutex for a moment. To
  // a lost connection nothing is sent.
  void send(EndpointLock& lock, const Frame& frame, std::span<const std::byte> bytes = {});
  void send(EndpointLock& lock, const std::shared_ptr<Outgoing>& message);
  // The same from the endpoint's thread, which writes it later: the mutex stays held.
  void queue(const Frame& frame, std::span<const std::byte> bytes = {});
  void queue(const std::shared_ptr<Outgoing>& message);

  // The endpoint's thread: there is something to read, or to write. The first returns why the connection has
  // ended, if it has.
  std::optional<std::string> read(EndpointLock& lock);
  void write(EndpointLock& lock);
  void room_came();

  // Whether the host there has answered nothing for too long. To be asked once in
  // KeepaliveMonitor::check_interval.
  bool is_silent();

  [[nodiscard]] bool is_lost() const { return lost_; }
  // Nothing is sent or read any more.
  void mark_lost();

  // Returns when all has been written or the limit has passed.
  void flush(EndpointLock& lock, Deadline limit);

 private:
  // A frame in the queue.
  struct Item {
    Frame::Bytes header;
    const std::byte* data = nullptr;  // of a short one
    std::size_t length = 0;
    std::vector<std::byte> copy = {};        // what `data` points to, if its sender does not hold it
    std::shared_ptr<Outgoing> message = {};  // whose part it is
    std::size_t offset = 0;                  // in the message
    bool is_last = false;                    // part: `end` follows
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
  std::size_t front_written_ = 0;                   // bytes of the first one
  std::deque<std::shared_ptr<Outgoing>> messages_;  // of which no part is in the queue; the next one first
  std::shared_ptr<Outgoing> part_of_;               // of which one is
  Item* borrowed_ = nullptr;                        // whose data its sender holds, which is writing
  bool is_writing_ = false;                         // somebody is
  int unanswered_ = 0;                              // short frames since something was read
  bool awaits_room_ = false;                        // the endpoint's thread will

  std::unique_ptr<std::byte[]> buffer_;
  std::size_t begin_ = 0;  // of what has been read and not taken
  std::size_t end_ = 0;
  std::size_t missing_ = 0;           // bytes of the part that is being read
  std::shared_ptr<Incoming> target_;  // whose part it is
};

}  // namespace dlaunch
