// Two rings of bytes in memory that two processes of a host share: a connection without system calls.
//
// A side writes how far it has written one ring and read the other, and how it waits; the other one, that it
// has woken it. What the other side has written is checked before it is used. The memory is a sealed memfd
// without a name, which one side makes and hands to the other as a descriptor. It takes all its pages at
// once: a write without memory would end the process.
//
// A side waits in one of three ways, which the other one reads after each change: it looks, and needs no
// wake; it sleeps on its bell, a futex; or it sleeps elsewhere, and the other one wakes it in a way of its
// own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "dlaunch/backend.h"

namespace dlaunch::internal {

class ByteRings {
 public:
  static constexpr std::size_t ring_size = std::size_t{128} * 1024;  // a power of two
  static constexpr std::size_t file_size = 4096 + 2 * ring_size;

  // A new memfd with all its memory, close-on-exec, which the caller closes; -1: `why` becomes one clause.
  static int make_file(std::string& why);
  // Maps what make_file() has made. Does not keep `fd`. Null: it is no such file, is not sealed, or cannot be
  // mapped; `why` becomes one clause.
  enum class Side : std::uint8_t { maker, receiver };
  static std::unique_ptr<ByteRings> map(int fd, Side side, std::string& why);
  ~ByteRings();
  ByteRings(const ByteRings&) = delete;
  ByteRings& operator=(const ByteRings&) = delete;

  // --- Bytes; one thread at a time writes, one at a time reads

  // Returns how many of the bytes have found room; none: the other side has written what no side writes. The
  // other side is not woken.
  std::optional<std::size_t> write(std::span<const std::byte> bytes) { return write(std::span(&bytes, 1)); }
  // The same of several pieces, behind each other: the other side sees them at once if they are short.
  std::optional<std::size_t> write(std::span<const std::span<const std::byte>> pieces);
  // After write() has found too little room: the other side wakes this one when there is more. True: there is
  // already.
  bool await_room();
  // Returns how many bytes were there, `to`.size() at most; none: as above. The other side is not woken.
  std::optional<std::size_t> read(std::span<std::byte> to);

  // --- Waiting; any thread

  // Whether read() would return some.
  [[nodiscard]] bool has_bytes() const;
  // Whether await_room() would return true.
  [[nodiscard]] bool has_room() const;

  // From now on the other side need not wake this one, which looks.
  void look();
  // The other side is to wake this one in its own way. True: there is something already, and nobody is woken
  // for that.
  bool sleep_elsewhere();
  // Sleeps on the bell until the other side wakes it, until() or interrupt() was called, or the time has
  // come; perhaps earlier. Then this side looks.
  void sleep_on_bell(Deadline until);
  // Ends sleep_on_bell() of this side, also one that begins at the same time.
  void interrupt();
  // After write() and read(): wakes the other side if it sleeps on its bell. True: it sleeps elsewhere, and
  // the caller is to wake it.
  [[nodiscard]] bool wake_other();
  // After read(): the same, if the other side may wait for room.
  [[nodiscard]] bool wake_writer();

  // The calling thread leaves its processor if the other side was there when it last slept or looked.
  void part_from_other() const;

 private:
  struct Memory;
  enum Waits : std::uint32_t { looks, on_bell, elsewhere };

  ByteRings(void* memory, Side side);
  std::size_t put(std::span<const std::byte> bytes);
  [[nodiscard]] bool has_something() const { return has_bytes() || (awaits_room_ && has_room()); }

  Memory& memory_;
  const std::size_t own_;  // whose words these are
  const std::size_t other_;
  std::uint64_t written_ = 0;
  std::uint64_t other_read_ = 0;  // at least
  std::atomic<std::uint64_t> read_ = 0;
  bool was_full_ = false;                   // the ring that this side reads, before it last read
  std::atomic<std::uint64_t> full_at_ = 0;  // what the other side had read when there was no room
  std::atomic<bool> awaits_room_ = false;
  std::atomic<bool> sleeps_ = false;  // on the bell
  std::atomic<bool> is_interrupted_ = false;
};

}  // namespace dlaunch::internal
