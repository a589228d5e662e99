// The agent's own stdout or stderr, to which lines are written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "agent/output/dropped.h"
#include "agent/output/relay.h"

namespace dlaunch::agent {

// Writes to a regular file at once; to a pipe, socket or terminal without ever blocking, and without making
// the descriptor that we share with other processes non-blocking: through an open file description of its own
// or, if another user's pipe or terminal cannot be opened again, through a thread. Bytes that cannot be
// written at once are queued. When the reader has closed it, or the disk is full, the rest is dropped.
class Console {
 public:
  // If more than `high_water` bytes are queued, its writers should wait until no more than `low_water` are.
  static constexpr std::size_t high_water = 1U << 20;
  static constexpr std::size_t low_water = 256U * 1024;

  explicit Console(int fd);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Writes `first`, then `second`.
  void write(std::string_view first, std::string_view second = {});
  // Writes as much of the queue as it can without blocking.
  void push();
  // Everything has been written, or nothing can be written any more.
  [[nodiscard]] bool is_empty() const {
    return queue_.empty() && (broken_ || given_up_ || on_its_way() == 0);
  }
  [[nodiscard]] std::size_t queued() const { return queue_.size(); }
  // The reader has read something since the last call, from the queue or from the pipe.
  bool has_moved();
  // Drops the queue, and from now on all that cannot be written without blocking.
  void give_up();
  // The output dropped by give_up() and after it.
  [[nodiscard]] const Dropped& dropped() const { return dropped_; }

  // Its writers should wait; with hysteresis between high_water and low_water.
  bool is_full();
  // A sentence if output was lost although the reader had not closed it (a full disk); else empty.
  [[nodiscard]] std::string loss() const;
  [[nodiscard]] bool is_terminal() const { return is_terminal_; }
  [[nodiscard]] int fd() const { return fd_; }
  // push() should be called when fd() becomes writable.
  [[nodiscard]] bool wants_writing() const { return polled_ && !queue_.empty(); }

 private:
  std::size_t write_now(std::string_view first, std::string_view second);
  void write_or_drop(std::string_view first, std::string_view second);
  void note_written(std::string_view first, std::string_view second, std::size_t size);
  void begin_relay();
  std::size_t write_pieces(std::string_view text);
  [[nodiscard]] int unread() const;
  [[nodiscard]] std::uint64_t on_its_way() const { return relay_ ? handed_over_.bytes - relay_->bytes() : 0; }

  const bool is_stdout_;
  int fd_;
  int own_fd_ = -1;
  int lost_by_ = 0;  // errno
  bool polled_ = false;
  bool is_socket_ = false;
  bool is_terminal_ = false;
  bool blocks_ = false;  // a write may block; a relay is started before one would
  bool broken_ = false;
  bool full_ = false;
  bool given_up_ = false;
  bool within_line_ = false;  // the last byte written was not a line's end
  bool moved_ = false;
  int unread_ = 0;  // at the last has_moved()
  Dropped dropped_;
  std::unique_ptr<Relay> relay_;
  Dropped handed_over_;        // given to the relay; `lines`: the line ends among it
  std::uint64_t relayed_ = 0;  // at the last has_moved()
  std::string queue_;
};

}  // namespace dlaunch::agent
