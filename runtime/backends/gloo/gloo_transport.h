// A Transport over Gloo's unbound buffers, and the cure for what they lack.
//
// Gloo (the version in Debian 12) does not tell everybody who waits that a peer is gone: a message that is
// just being transferred is not woken, nor is anyone who waits for a third rank; and a wait that times out
// closes the connections to all ranks. So this class does the following with Gloo's means.
//
// Liveness: for each peer a receive is posted that is never answered; Gloo fails it when the connection ends.
// While messages are under way a watcher thread looks at these receives every few milliseconds, without
// blocking: a wait that was told to end before it began (abortWaitRecv) throws or returns at once. When a
// peer is lost, everything that waits ends with an error.
//
// Deadlines are kept by the watcher too, by ending the wait; Gloo's own timeouts are never reached (mesh.h).
//
// Last words: a rank that leaves or gives up sends its reason to a receive that each peer has posted from the
// beginning. So the others can say why, and a rank that left in order harms nobody who no longer needs it.
// Who gives up because of another rank names that one, so that all ranks say the same of it, whoever told
// them. A process that ends at once may take its last words along; the others then say that it died.
//
// Flushing: Gloo reports a send as done when the kernel has the bytes, and closing may throw those away. Each
// rank posts one send per peer in advance, which Gloo's thread carries out when the peer asks for it. A rank
// that leaves asks; since bytes keep their order, the answer means that all before it has arrived, and the
// other program need not do anything for it.
//
// Roll call: who waits in vain asks the others which operation they have come to. The answer too is a send
// that was posted in advance, from the memory in which a rank keeps that number, so that it costs nothing to
// have it ready and Gloo's thread gives it while the program is busy with other things.
//
// Writing: Gloo's thread does it all (errands.h), short messages in one write each (line_end.h). A thread of
// the program that writes gets into that one's way.
#pragma once

#include <gloo/transport/unbound_buffer.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dlaunch/transport.h"
#include "runtime/backends/gloo/errands.h"
#include "runtime/backends/gloo/mesh.h"
#include "runtime/mailbox.h"

namespace dlaunch {

class GlooTransport final : public Transport {
 public:
  // Connects with all ranks, listening at `local_address` (numeric). Throws DistNetworkError or
  // DistBackendError.
  GlooTransport(const BackendContext& context, const std::string& local_address);
  ~GlooTransport() override;
  GlooTransport(const GlooTransport&) = delete;
  GlooTransport& operator=(const GlooTransport&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  std::unique_ptr<Transfer> post_send(int peer, std::uint64_t slot,
                                      std::span<const std::byte> bytes) override;
  std::unique_ptr<Transfer> post_recv(int peer, std::uint64_t slot, std::span<std::byte> bytes) override;
  std::unique_ptr<Inbox> post_recv_any(std::uint64_t slot, std::span<std::byte> bytes) override;
  Line& line() override;
  void check() override;
  void abort(const std::string& reason) noexcept override { give_up(reason, -1); }
  void abort_for(int peer, const std::string& reason) noexcept override { give_up(reason, peer); }
  std::vector<int> departed() override;
  void shutdown(Deadline deadline) noexcept override;
  void enter(std::uint64_t number) noexcept override { entered_.store(number, std::memory_order_relaxed); }
  RollCall call_roll(std::uint64_t number) override;

 private:
  class Pending;
  class Message;
  class AnyMessage;
  class LineEnd;
  struct LastWords;
  struct Peer;
  using Buffer = std::unique_ptr<::gloo::transport::UnboundBuffer>;

  void greet(int peer);
  void watch();
  void look_for_losses();
  void look_for_silence();
  std::vector<int> present_peers();
  bool has_ended();
  void throw_if_ended();
  bool has_left(int peer);
  void end(const std::string& reason, int blamed);
  void end_for(const LastWords& words, int peer, const std::string& gloo_says);
  void give_up(const std::string& reason, int blamed) noexcept;
  void say_goodbye(const LastWords& words);
  void await_echoes(Deadline deadline);
  static std::optional<std::string> why_gone(Peer& peer);
  static LastWords last_words(Peer& peer);
  [[noreturn]] void explain(int peer, const std::string& gloo_says);

  const int rank_;
  const int size_;
  std::shared_ptr<::gloo::transport::Device> device_;
  const std::shared_ptr<Mesh> context_;
  Errands errands_;
  Mailbox to_self_;                           // Gloo has no connection to the own rank
  std::atomic<std::uint64_t> entered_ = 0;    // the latest operation; Gloo sends it from here
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null for this one
  std::unique_ptr<LineEnd> line_;

  std::atomic<bool> roll_called_ = false;
  std::vector<std::uint64_t> answers_;  // by rank; memory before the receives that write into it
  std::vector<std::unique_ptr<Transfer>> questions_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // protected by mutex_
  std::vector<Pending*> under_way_;
  std::uint64_t posted_ = 0;          // messages ever
  std::vector<int> left_;             // ranks that have left in order, in the order of their leaving
  bool watcher_sleeps_ = false;       // until somebody notifies it
  std::optional<std::string> ended_;  // why; the first reason
  int blamed_ = -1;                   // the rank because of which it ended
  bool gave_up_ = false;              // the watcher is to close the connections
  bool closing_ = false;              // the watcher is to end

  std::mutex peers_mutex_;  // before mutex_; held while asking whether a peer is lost and what it said
  std::atomic<bool> gone_ = false;  // the others are being told

  std::thread watcher_;  // last: it uses all of the above
};

}  // namespace dlaunch
