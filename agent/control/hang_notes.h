// When to report that nothing moves, in a job that may go on all the same: after --hang-note, after 5 and 15
// times as long, then every 30 times. Pure.
//
// A job may stand still for good reasons now and then, while one rank evaluates or writes a checkpoint. So
// after a stall that was reported and then ended by itself, the next one in the round is reported only when
// it is twice as long.
#pragma once

#include <algorithm>

#include "store/base/time.h"

namespace dlaunch::agent {

class HangNotes {
 public:
  // `first`: zero: nothing is ever reported.
  explicit HangNotes(Duration first) : first_(first) { begin(); }

  // A round begins.
  void begin() {
    from_ = next_ = first_;
    longest_ = Duration(0);
  }

  // Nothing has moved for `stall`; zero: something moves, or no rank waits. True: report it now.
  bool take(Duration stall) {
    if (first_ == Duration(0)) return false;
    if (stall < longest_) end_stall();
    longest_ = stall;
    if (stall < next_) return false;
    next_ = after(stall);
    return true;
  }

 private:
  void end_stall() {
    if (longest_ >= from_) from_ = 2 * longest_;
    next_ = from_;
  }

  [[nodiscard]] Duration after(Duration stall) const {
    constexpr int often = 30;
    for (const int times : {5, 15}) {
      if (stall < times * first_) return std::max(times * first_, from_);
    }
    return (stall / (often * first_) + 1) * often * first_;
  }

  Duration first_;
  Duration from_{};     // the next stall is reported after this time
  Duration next_{};     // this one, for the next time
  Duration longest_{};  // this one until now
};

}  // namespace dlaunch::agent
