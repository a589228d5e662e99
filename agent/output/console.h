// The agent's own stdout or stderr, as a place where lines go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "agent/output/dropped.h"
#include "agent/output/relay.h"

namespace dlaunch::agent {

// A regular file is written at once; a pipe, socket or terminal without ever blocking, and without making the
// descriptor that we share with others non-blocking: through a description of our own, or, where another
// user's pipe or terminal does not let us have one, a thread. What does not go at once is queued. When the
// reader has gone, or the disk is full, the rest is dropped.
class Console {
 public:
  // Where more than `high_water` bytes are queued, its writers should wait until no more than `low_water`
  // are.
  static constexpr std::size_t high_water = 1U << 20;
  static constexpr std::size_t low_water = 256U * 1024;

  explicit Console(int fd);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Both texts, one behind the other.
  void write(std::string_view first, std::string_view second = {});
  // Writes what goes without waiting.
  void push();
  // Everything has gone, or there is nowhere to go.
  [[nodiscard]] bool is_empty() const {
    return queue_.empty() && (broken_ || given_up_ || on_its_way() == 0);
  }
  [[nodiscard]] std::size_t queued() const { return queue_.size(); }
  // Whether the reader has taken something since the last call, also of what the pipe holds.
  bool has_moved();
  // Drops what is queued, and from now on what does not go without waiting.
  void give_up();
  // What was dropped by give_up(), and after it.
  [[nodiscard]] const Dropped& dropped() const { return dropped_; }

  // With hysteresis: asks its writers to wait.
  bool is_full();
  // What could not be written although nobody had stopped reading (a full disk), as a sentence; empty:
  // nothing.
  [[nodiscard]] std::string loss() const;
  [[nodiscard]] bool is_terminal() const { return is_terminal_; }
  [[nodiscard]] int fd() const { return fd_; }
  // Whether to call push() when fd() can be written.
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
  bool blocks_ = false;  // a write may; a relay is begun when one would
  bool broken_ = false;
  bool full_ = false;
  bool given_up_ = false;
  bool within_line_ = false;  // the last byte that went out ended no line
  bool moved_ = false;
  int unread_ = 0;  // at the last has_moved()
  Dropped dropped_;
  std::unique_ptr<Relay> relay_;
  Dropped handed_over_;        // to the relay; `lines`: their ends
  std::uint64_t relayed_ = 0;  // at the last has_moved()
  std::string queue_;
};

}  // namespace dlaunch::agent
