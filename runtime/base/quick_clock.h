// The steady clock at a third of its price: the processor's counter, converted.
//
// A look at the steady clock takes 30 to 50 ns in a virtual machine, which is more than all else that a call
// of a collective does before it sends. The processor's counter takes 10. It is used only where it runs at a
// constant rate; its rate and offset are compared with the steady clock ten times a second, and a difference
// that no rate explains (the virtual machine has moved) discards both.
#pragma once

#include <atomic>
#include <cstdint>

#include "dlaunch/backend.h"

namespace dlaunch::internal {

// Any thread. Differs from the steady clock by less than a millisecond, mostly by less than a microsecond.
class QuickClock {
 public:
  static Deadline now();

 private:
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
