// What an error shows of a call.

#include "runtime/collectives/collective_fingerprint.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dlaunch::internal {
namespace {

TEST(CollectiveFingerprint, ShowsWhatTheRanksMustAgreeOn) {
  const auto text = [](CollectiveKind kind) {
    return to_string(CollectiveFingerprint{
        .kind = kind, .dtype = DType::int16, .op = ReduceOp::max, .root = 3, .count = 1000, .layout = 77});
  };
  EXPECT_EQ(text(CollectiveKind::all_reduce), "all_reduce(1000 x int16, max)");
  EXPECT_EQ(text(CollectiveKind::broadcast), "broadcast(1000 x int16, src 3)");
  EXPECT_EQ(text(CollectiveKind::all_gather), "all_gather(1000 x int16 in all)");
  EXPECT_EQ(text(CollectiveKind::barrier), "barrier()");
  EXPECT_EQ(text(CollectiveKind::reduce), "reduce(1000 x int16, max, dst 3)");
  EXPECT_EQ(text(CollectiveKind::gather), "gather(1000 x int16 each, dst 3)");
  EXPECT_EQ(text(CollectiveKind::scatter), "scatter(1000 x int16 each, src 3)");
  EXPECT_EQ(text(CollectiveKind::reduce_scatter), "reduce_scatter(1000 x int16 in all, max)");
  EXPECT_EQ(text(CollectiveKind::all_to_all), "all_to_all(int16)");
  EXPECT_EQ(text(CollectiveKind::all_reduce_coalesced), "all_reduce_coalesced(1000 x int16 in all, max)");
}

// It may come from another process as any byte.
TEST(CollectiveFingerprint, OfAnUnknownOperationHasAText) {
  EXPECT_EQ(to_string(CollectiveFingerprint{.kind = static_cast<CollectiveKind>(0)}), "an unknown operation");
  EXPECT_EQ(to_string(CollectiveFingerprint{.kind = static_cast<CollectiveKind>(255)}),
            "an unknown operation");
}

TEST(CollectiveFingerprint, EqualsOneOfTheSameCallOnly) {
  const CollectiveFingerprint call{.kind = CollectiveKind::reduce, .root = 1, .count = 10, .layout = 3};
  EXPECT_EQ(call, CollectiveFingerprint(call));
  const auto differs = [&](auto change) {
    CollectiveFingerprint other = call;
    change(other);
    return other != call;
  };
  EXPECT_TRUE(differs([](CollectiveFingerprint& c) { c.kind = CollectiveKind::gather; }));
  EXPECT_TRUE(differs([](CollectiveFingerprint& c) { c.dtype = DType::int32; }));
  EXPECT_TRUE(differs([](CollectiveFingerprint& c) { c.op = ReduceOp::max; }));
  EXPECT_TRUE(differs([](CollectiveFingerprint& c) { c.root = 0; }));
  EXPECT_TRUE(differs([](CollectiveFingerprint& c) { c.count = 11; }));
  EXPECT_TRUE(differs([](CollectiveFingerprint& c) { c.layout = 4; }));
}

}  // namespace
}  // namespace dlaunch::internal
