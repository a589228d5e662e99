#include "runtime/shared_memory/rank_processors.h"

#include <bit>

namespace dlaunch::internal {

RankProcessors::Answer RankProcessors::look() {
  if (all_.processes.load(std::memory_order_acquire) < ranks_) return Answer::not_known;
  std::size_t count = 0;
  for (const auto& set : all_.sets) {
    count += static_cast<std::size_t>(std::popcount(set.load(std::memory_order_relaxed)));
  }
  const Answer answer = count >= ranks_ ? Answer::yes : Answer::no;
  answer_.store(answer, std::memory_order_relaxed);
  return answer;
}

}  // namespace dlaunch::internal
