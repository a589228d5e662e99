// The tokens of one coordinator. Of several, in the order of their worlds:
// tests/agent/control/fencing_test.cpp.
#include "agent/model/fencing.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

constexpr std::int64_t now_us = 1'700'000'000'000'000;
constexpr std::uint64_t now_token = now_us;
constexpr std::uint64_t day_us = 86'400'000'000;

TEST(FencingTokens, BeginWithTheClockAndGrowByOne) {
  FencingTokens tokens(now_us, TimePoint(seconds(5)));
  EXPECT_TRUE(tokens.need_range());
  tokens.take_range(TimePoint(seconds(7)));
  EXPECT_EQ(tokens.next(), now_token + 2'000'000);
  EXPECT_EQ(tokens.next(), now_token + 2'000'001);
  EXPECT_EQ(tokens.known(), now_token + 2'000'001);
  EXPECT_FALSE(tokens.need_range());
}

TEST(FencingTokens, AreAboveAllOfALeadThatIsKnownThoughTheClockIsBehind) {
  FencingTokens tokens(0, TimePoint{});
  tokens.learn(now_token, true);
  tokens.take_range(TimePoint{});
  EXPECT_GE(tokens.next(), now_token + FencingTokens::per_lead);
}

TEST(FencingTokens, AreReplacedIfAnotherLeaderHasTheSameRange) {
  FencingTokens tokens(now_us, TimePoint{});
  tokens.take_range(TimePoint{});
  const std::uint64_t own = tokens.next();
  tokens.learn(own, false);  // from a member that comes back
  EXPECT_FALSE(tokens.need_range());
  tokens.learn(own + 1, false);
  EXPECT_TRUE(tokens.need_range());
  tokens.take_range(TimePoint{});
  EXPECT_GT(tokens.next(), own + FencingTokens::per_lead);
}

TEST(FencingTokens, OfOthersAreBelievedUpToADayAhead) {
  const FencingTokens tokens(now_us, TimePoint{});
  EXPECT_TRUE(tokens.believes(TimePoint{}, now_token + day_us, false));
  EXPECT_FALSE(tokens.believes(TimePoint{}, now_token + day_us + 1, false));
  EXPECT_TRUE(tokens.believes(TimePoint(seconds(1)), now_token + day_us + 1, false));
  EXPECT_TRUE(tokens.believes(TimePoint{}, 2 * now_token, true))
      << "this agent's own member has no reason to lie";
  EXPECT_FALSE(tokens.believes(TimePoint{}, FencingTokens::highest, true));
  EXPECT_FALSE(tokens.believes(TimePoint{}, UINT64_MAX, true));
}

}  // namespace
}  // namespace dlaunch::agent
