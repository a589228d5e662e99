// The connections beside one to another worker (link.h), on which the blocks of long messages travel as
// stripes in both directions. Whichever has room sends the next stripe.
//
// Messages that are complete are taken by the thread that reads the connection to the worker, so its messages
// are handled by one thread at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/rpc/stripe_threads.h"
#include "runtime/rpc_protocol/stripe_queue.h"
#include "runtime/rpc_protocol/stripe_reader.h"
#include "runtime/rpc_protocol/stripe_table.h"
#include "runtime/sockets/descriptor.h"

namespace dlaunch::internal {

// Why a connection has ended.
inline constexpr const char* connection_was_closed = "the connection was closed";

// Any thread.
class SideLinks : public std::enable_shared_from_this<SideLinks> {
 public:
  static constexpr std::size_t most = 16;
  // After the end of one of them the other worker may still report on its connection why it ends: so long.
  static constexpr auto grace = std::chrono::milliseconds(50);

  SideLinks();
  ~SideLinks();
  SideLinks(const SideLinks&) = delete;
  SideLinks& operator=(const SideLinks&) = delete;

  // `on_lost` is called once, when one of them has ended. False: there are too many, or all have ended.
  // Throws DistBackendError.
  bool add(Descriptor socket, std::shared_ptr<StripeThreads> threads, std::function<void()> on_lost);
  // Whether blocks may be sent here.
  [[nodiscard]] bool are_open() const { return are_open_; }

  // REQUIRES: it is striped, and its front is sent.
  void send(RpcMessage message);
  // The memory of the callers of these messages is not read from now on.
  void keep(std::span<const std::uint64_t> numbers);
  // Returns when all is sent, or at the deadline.
  void flush(Deadline deadline);

  // Replaces the fronts among the messages by those that are complete now, and appends others. One thread at
  // a time. Returns what is wrong.
  std::optional<std::string> complete(std::vector<RpcMessage>& messages);
  // A descriptor that is readable when complete() has something to append.
  [[nodiscard]] int ready() const { return ready_.get(); }
  // Why the connection to the worker is to end: one of these has ended some time ago.
  [[nodiscard]] std::optional<std::string> why_lost() const;

  // Ends them all.
  void end();

 private:
  class Side;

  std::optional<Stripe> next(Side& side);
  [[nodiscard]] bool has_stripes() const;
  std::optional<std::string> begin(const StripeHead& head, std::span<std::byte>& place);
  void on_stored(const StripeHead& head);
  void lose(const std::string& why);
  [[nodiscard]] std::vector<std::shared_ptr<Side>> sides() const;

  const Descriptor ready_;
  std::atomic<bool> are_open_ = false;

  mutable std::mutex mutex_;
  // protected by mutex_
  std::vector<std::shared_ptr<Side>> sides_;
  StripeQueue queue_;
  StripeTable table_;
  std::vector<RpcMessage> complete_;
  std::function<void()> on_lost_;
  std::string why_lost_;
  Deadline lost_at_;
  bool has_ended_ = false;
};

}  // namespace dlaunch::internal
