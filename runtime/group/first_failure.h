// Which of several cooperating processes failed first. The order in which they end does not show it: a rank
// that waits for a dying one may end before it. The errors they threw show it. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace dlaunch::internal {

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
  bool final;  // the ranks that still run cannot change the result
};

// `failures`: in the order in which they were seen; `well`: the ranks that have succeeded.
//
// Returns a failure that blames no other rank. If there is none, it starts with the earliest error and
// follows the blame from rank to rank to the end. REQUIRES: !failures.empty(), each rank once.
FirstFailure first_failure(std::span<const RankFailure> failures, std::span<const int> well);

}  // namespace dlaunch::internal
