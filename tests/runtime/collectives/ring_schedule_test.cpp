#include "runtime/collectives/ring_schedule.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace dlaunch::internal {
namespace {

TEST(RingSchedule, NeighboursAgreeOnEveryMessage) {
  for (const std::size_t size : {2U, 3U, 5U}) {
    for (std::size_t rank = 0; rank < size; ++rank) {
      const RingSchedule ring(rank, size, 4, rank);
      const RingSchedule right((rank + 1) % size, size, 4, (rank + 1) % size);
      EXPECT_EQ(ring.right(), static_cast<int>((rank + 1) % size));
      EXPECT_EQ(right.left(), static_cast<int>(rank));
      for (std::size_t k = 0; k < 2 * ring.round(); ++k) {
        EXPECT_EQ(ring.outgoing(k).block, right.incoming(k).block);
        EXPECT_EQ(ring.outgoing(k).segment, right.incoming(k).segment);
      }
    }
  }
}

TEST(RingSchedule, ARoundBringsEveryOtherBlockOnce) {
  const RingSchedule ring(1, 4, 3, 1);
  ASSERT_EQ(ring.round(), 9U);
  std::set<std::pair<std::size_t, std::size_t>> seen;
  for (std::size_t k = 0; k < ring.round(); ++k) {
    EXPECT_NE(ring.incoming(k).block, 1U);
    EXPECT_TRUE(seen.insert({ring.incoming(k).block, ring.incoming(k).segment}).second) << k;
  }
  EXPECT_EQ(seen.size(), 9U);
  EXPECT_EQ(ring.incoming(ring.round() - 1).block, 2U);  // finished at this rank, after all others
}

TEST(RingSchedule, ABlockThatStartsBehindItsOwnerEndsAtItsOwner) {
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const RingSchedule ring(rank, 4, 2, (rank + 3) % 4);
    EXPECT_EQ(ring.incoming(ring.round() - 1).block, rank);
  }
}

TEST(EvenPart, PartsFollowEachOtherAndDifferByOneAtMost) {
  for (const std::size_t count : {0U, 1U, 6U, 7U, 1000U}) {
    std::size_t end = 0;
    for (std::size_t number = 0; number < 7; ++number) {
      const EvenPart part(count, 7, number);
      EXPECT_EQ(part.begin, end);
      EXPECT_LE(part.length - count / 7, 1U);
      end += part.length;
    }
    EXPECT_EQ(end, count);
  }
}

}  // namespace
}  // namespace dlaunch::internal
