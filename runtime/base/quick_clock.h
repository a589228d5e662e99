// The steady clock at a third of its price: the processor's counter, converted.
//
// A look at the steady clock takes 30 to 50 ns in a virtual machine, which is more than all else that a call
// of a collective does before it sends. The processor's counter takes 10. It is used only where it runs at a
// constant rate; its rate and offset are compared with the steady clock ten times a second, and a difference
// that no rate explains (the virtual machine has moved) discards both.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "dlaunch/backend.h"

namespace dlaunch::internal {

// Any thread. Differs from the steady clock by less than a millisecond, mostly by less than a microsecond.
class QuickClock {
 public:
#if defined(__x86_64__)
  static Deadline now() {
    const std::uint64_t before = anchor.seqlock.load(std::memory_order_acquire);
    const std::uint64_t anchored = anchor.ticks.load(std::memory_order_acquire);
    const std::int64_t ns = anchor.ns.load(std::memory_order_acquire);
    const std::uint64_t rate = anchor.ns_per_tick.load(std::memory_order_acquire);
    const std::uint64_t valid = anchor.valid_ticks.load(std::memory_order_acquire);
    const std::uint64_t ticks = __builtin_ia32_rdtsc() - anchored;
    if (before % 2 == 0 && before == anchor.seqlock.load(std::memory_order_relaxed) && ticks < valid) {
      return at(ns + converted(ticks, rate));
    }
    return read_slowly();
  }
#else
  static Deadline now() { return std::chrono::steady_clock::now(); }
#endif

 private:
  static constexpr int shift = 32;

  static Deadline at(std::int64_t ns) {
    return Deadline(std::chrono::duration_cast<Deadline::duration>(std::chrono::nanoseconds(ns)));
  }
  static std::int64_t converted(std::uint64_t ticks, std::uint64_t ns_per_tick) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::int64_t>((Wide{ticks} * ns_per_tick) >> shift);
  }

  // A pair of looks at both clocks, and the rate since an earlier pair. Written under a seqlock.
  struct Anchor {
    std::atomic<std::uint64_t> seqlock{0};
    std::atomic<std::uint64_t> ticks{0};
    std::atomic<std::int64_t> ns{0};
    std::atomic<std::uint64_t> ns_per_tick{0};  // times 2^32; 0: not known yet
    std::atomic<std::uint64_t> valid_ticks{0};  // after `ticks`
  };

  static Deadline read_slowly();
  static Anchor anchor;
};

}  // namespace dlaunch::internal
