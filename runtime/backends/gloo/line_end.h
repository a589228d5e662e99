// One rank's end of a line, over Gloo's bound buffers.
//
// What goes through an unbound buffer is three messages: the receiver's notice, the sender's, and the data,
// each with its system call and its turn of the other side's thread. A bound buffer is memory into which the
// peer writes unasked: one message. What it lacks is done here.
//
// Room: each rank has a ring of cells for what each peer sends, and gives half a ring of credit whenever half
// a ring has been released. A sender without credit waits; one with credit has a cell that is free also on
// its own side, since what was in it has been released at the other end.
//
// The end of a wait: Gloo offers none but the arrival of something. The watcher counts up an arrival that was
// none, and whoever waits knows it.
//
// The last message: once a connection has ended Gloo no longer tells what had arrived. Each cell begins with
// the number of its message; what a rank that left in order has sent is there.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/backends/gloo/gloo_transport.h"

namespace dlaunch {

class GlooTransport::LineEnd final : public Line {
 public:
  // REQUIRES: the owner is connected, and not known to anybody yet.
  explicit LineEnd(GlooTransport& owner);
  ~LineEnd() override;
  LineEnd(const LineEnd&) = delete;
  LineEnd& operator=(const LineEnd&) = delete;

  std::byte* compose(int peer, Deadline deadline) override;
  void send(int peer, std::size_t length) override;
  const std::byte* receive(int peer, Deadline deadline) override;
  void release(int peer) noexcept override;

 private:
  class Arrivals;
  struct Outbox;
  struct Side;

  [[nodiscard]] Side& side_of(int peer) const { return *sides_[static_cast<std::size_t>(peer)]; }

  GlooTransport& owner_;
  std::vector<std::unique_ptr<Side>> sides_;  // by rank; null for this one
};

}  // namespace dlaunch
