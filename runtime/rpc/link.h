// One connection to another worker: messages in both directions. It never blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/base/function_ref.h"
#include "runtime/rpc_protocol/message_reader.h"
#include "runtime/rpc_protocol/send_queue.h"
#include "runtime/sockets/descriptor.h"

namespace dlaunch::internal {

// Any thread.
class Link {
 public:
  // `poll`: an epoll, whose events for this connection have the token.
  Link(Descriptor socket, int poll, std::uint64_t token)
      : socket_(std::move(socket)), poll_(poll), token_(token) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  [[nodiscard]] std::uint64_t token() const { return token_; }
  // From now on the epoll reports events.
  void watch();

  // Sends what the kernel takes at once; the rest follows when there is room. Does nothing more than keep the
  // message if the connection is lost: the reader finds that. Returns whether all is sent.
  bool send(RpcMessage message);
  // There is room again. Returns whether all is sent now.
  bool on_writable();

  // Reads all that has arrived. One thread at a time does it; others return at once and leave it to that one.
  // Calls the handler with the messages in order, and, once, with the reason why the connection has ended.
  // `hung_up`: the epoll has reported the end of the connection.
  struct Handler {
    FunctionRef<void(std::vector<RpcMessage>& messages)> on_messages;
    FunctionRef<void(const std::string& why)> on_end;
  };
  void read(bool hung_up, const Handler& handler);

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

 private:
  void write();
  std::optional<std::string> read_some(std::vector<RpcMessage>& messages, bool& is_empty);
  void read_all(const Handler& handler);

  const Descriptor socket_;
  const int poll_;
  const std::uint64_t token_;

  mutable std::mutex write_mutex_;
  // protected by write_mutex_
  SendQueue queue_;
  bool waits_for_room_ = false;
  bool broken_ = false;

  std::atomic<int> read_requests_ = 0;
  std::atomic<bool> hung_up_ = false;
  // Only the reading thread.
  MessageReader reader_;
  bool ended_ = false;
};

}  // namespace dlaunch::internal
