// Whether each rank of a segment can have a processor of its own: only then a rank looks before it sleeps.
//
// A process that may use as many processors as there are ranks knows it. One that may use fewer may share
// them with the other ranks, or be bound to its own (dlaunch --bind, mpirun): then what all ranks together
// may use counts, once all have mapped the segment.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/shared_memory/layout.h"

namespace dlaunch::internal {

// Any thread.
class RankProcessors {
 public:
  // `own`: how many processors this process may use. REQUIRES: `all` outlives this object.
  RankProcessors(const shared::Processors& all, std::size_t ranks, std::size_t own)
      : all_(all), ranks_(ranks), answer_(own >= ranks ? Answer::yes : Answer::not_known) {}

  [[nodiscard]] bool suffice() {
    const Answer answer = answer_.load(std::memory_order_relaxed);
    return (answer == Answer::not_known ? look() : answer) == Answer::yes;
  }

 private:
  enum class Answer : std::uint8_t { not_known, no, yes };
  Answer look();

  const shared::Processors& all_;
  const std::size_t ranks_;
  std::atomic<Answer> answer_;
};

}  // namespace dlaunch::internal
