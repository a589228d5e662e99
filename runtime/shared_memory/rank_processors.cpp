#include "runtime/shared_memory/rank_processors.h"

#include <tuple>

#include "runtime/shared_memory/processors.h"

namespace dlaunch::internal {

RankProcessors::Answer RankProcessors::look() {
  if (all_.processes.load(std::memory_order_acquire) < ranks_) return Answer::not_known;
  ProcessorSet set{};
  static_assert(shared::Processors::most == 64 * std::tuple_size_v<ProcessorSet>);
  for (std::size_t i = 0; i < set.size(); ++i) set[i] = all_.sets[i].load(std::memory_order_relaxed);
  const Answer answer = size_of(set) >= ranks_ ? Answer::yes : Answer::no;
  answer_.store(answer, std::memory_order_relaxed);
  return answer;
}

}  // namespace dlaunch::internal
