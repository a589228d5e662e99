// Which of several processes that work together failed first. The order in which their ends are seen does not
// tell: whoever waits for a rank that dies may be gone before it. What they threw does. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace dlaunch {

struct RankFailure {
  int rank;
  std::string problem;  // what follows "rank 1 "
  // It threw a DistNetworkError: something is wrong with another rank.
  bool blames_another = false;
  int peer = -1;               // which one, if that is known
  std::int64_t thrown_ns = 0;  // when, by the steady clock
};

struct FirstFailure {
  const RankFailure* failure;
  bool final;  // whatever the ranks that still run will come to
};

// `failures` in the order in which they were seen; `well`: the ranks that have ended without one.
//
// One that blames nobody; else the end of the chain that begins with what was thrown first and leads from
// each to the one that it blames. REQUIRES: !failures.empty(), a rank once.
FirstFailure first_failure(std::span<const RankFailure> failures, std::span<const int> well);

}  // namespace dlaunch
