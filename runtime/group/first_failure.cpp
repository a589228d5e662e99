#include "runtime/group/first_failure.h"

#include <algorithm>
#include <vector>

namespace dlaunch::internal {

FirstFailure first_failure(std::span<const RankFailure> failures, std::span<const int> well) {
  const auto cause = std::ranges::find(failures, false, &RankFailure::blames_another);
  if (cause != failures.end()) return {&*cause, true};

  std::vector<int> passed;
  for (auto at = std::ranges::min_element(failures, {}, &RankFailure::thrown_ns);;) {
    passed.push_back(at->rank);
    const auto next = std::ranges::find(failures, at->peer, &RankFailure::rank);
    // The chain ends: the blamed rank has not failed, or two ranks blame each other and share the mistake.
    if (next == failures.end()) return {&*at, std::ranges::find(well, at->peer) != well.end()};
    if (std::ranges::find(passed, next->rank) != passed.end()) return {&*next, false};
    at = next;
  }
}

}  // namespace dlaunch::internal
