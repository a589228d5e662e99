// The fencing token of a world: a number that is higher than that of every world of the job before it. A
// program writes it with its checkpoint, and whatever keeps the checkpoint rejects a lower one. Pure.
//
// Each leader's term has a range of tokens of its own. The range begins at the Unix time in microseconds, or
// at `per_lead` above the highest known token, whichever is higher. So tokens grow
//   - within a term: by one with each world;
//   - from one leader to the next: a majority confirms the range before the first world of a term, and the
//   next
//     leader asks a majority before it takes a range. Clocks do not matter;
//   - after all agents that knew a token have ended: if the clock of the leader's machine has not been set
//   back
//     to before the last term.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "store/base/time.h"

namespace dlaunch::agent {

class FencingTokens {
 public:
  // The tokens of one range. 2^20 microseconds are about a second.
  static constexpr std::uint64_t per_lead = 1U << 20;
  // Every token is exact as a floating-point number, because JSON may store it so.
  static constexpr std::uint64_t highest = (std::uint64_t{1} << 53) - 1;
  // A token claimed by a node is believed up to this much above this node's clock.
  static constexpr Duration most_ahead = std::chrono::hours(24);

  // `unix_us` is the wall clock at `at`, in microseconds.
  FencingTokens(std::int64_t unix_us, TimePoint at)
      : unix_us_(std::clamp<std::int64_t>(unix_us, 0, highest / 2)), at_(at) {}

  // `own`: the member in this agent claims it.
  [[nodiscard]] bool believes(TimePoint now, std::uint64_t token, bool own) const {
    if (token > highest - 2 * per_lead) return false;
    const auto ahead = static_cast<std::uint64_t>(microseconds(most_ahead));
    return own || token <= std::max(clock(now), own_) + ahead;
  }
  // An agent has seen this token, or a range that begins with it: of this term, or of another that began
  // after it. REQUIRES: believes().
  void learn(std::uint64_t token, bool own) {
    known_ = std::max(known_, token);
    if (token >= next_) next_ = 0;
    if (own) own_ = std::max(own_, token);
  }

  // There is no range, or the next token may have been given to another world.
  [[nodiscard]] bool need_range() const { return next_ == 0; }
  void take_range(TimePoint now) {
    next_ = std::max({clock(now), known_ + per_lead, std::uint64_t{1}});
    known_ = next_;
  }
  // The highest token that this agent knows, or the beginning of the highest range.
  [[nodiscard]] std::uint64_t known() const { return known_; }
  // For a new world. REQUIRES: !need_range().
  std::uint64_t next() {
    known_ = std::max(known_, next_);
    return next_++;
  }

 private:
  static std::int64_t microseconds(Duration time) {
    return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  }
  [[nodiscard]] std::uint64_t clock(TimePoint now) const {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, unix_us_ + microseconds(now - at_)));
  }

  std::int64_t unix_us_;
  TimePoint at_;
  std::uint64_t known_ = 0;
  std::uint64_t own_ = 0;   // the highest token claimed by the member in this agent
  std::uint64_t next_ = 0;  // 0: there is no range
};

}  // namespace dlaunch::agent
