#include "runtime/group/first_failure.h"

#include <gtest/gtest.h>

#include <vector>

namespace {

using namespace dlaunch::internal;

RankFailure blames(int rank, int peer, std::int64_t when) { return {rank, "failed: peer", true, peer, when}; }

struct Answer {
  int rank;
  bool final;
  bool operator==(const Answer&) const = default;
};

Answer answer(const std::vector<RankFailure>& failures, const std::vector<int>& well = {}) {
  const FirstFailure first = first_failure(failures, well);
  return {first.failure->rank, first.final};
}

TEST(FirstFailure, IsTheOneThatBlamesNoOther) {
  const RankFailure killed{1, "was ended by signal 9 (Killed)"};
  EXPECT_EQ(answer({killed}), (Answer{1, true}));
  EXPECT_EQ(answer({blames(0, 1, 10), blames(2, 0, 20), killed}), (Answer{1, true}));
  EXPECT_EQ(answer({blames(0, 2, 10), killed, {2, "failed: no more data", false, -1, 5}}), (Answer{1, true}));
}

TEST(FirstFailure, IsTheEndOfTheChainWhereAllBlameOthers) {
  // Rank 0 waits for rank 1, which still runs; the others have heard of rank 0.
  EXPECT_EQ(answer({blames(3, 2, 10), blames(2, 0, 11), blames(0, 1, 12)}), (Answer{0, false}));
  // Rank 1 has ended well: nothing else will come.
  EXPECT_EQ(answer({blames(3, 2, 10), blames(2, 0, 11), blames(0, 1, 12)}, {1}), (Answer{0, true}));
}

TEST(FirstFailure, IsWhatWasThrownFirstWhereTheyBlameEachOther) {
  EXPECT_EQ(answer({blames(0, 1, 20), blames(1, 0, 10)}), (Answer{1, false}));
  EXPECT_EQ(answer({blames(0, 1, 10), blames(1, 0, 20)}), (Answer{0, false}));
  EXPECT_EQ(answer({blames(2, 2, 10)}), (Answer{2, false}));
}

TEST(FirstFailure, IsTheEarliestIfNoRankIsNamed) {
  EXPECT_EQ(answer({blames(0, -1, 20), blames(1, -1, 10)}), (Answer{1, false}));
}

}  // namespace
