#include "runtime/rpc/looking_pays.h"

#include <gtest/gtest.h>

namespace dlaunch::internal {
namespace {

TEST(LookingPays, StopsAfterLooksInVainAndTriesAgain) {
  LookingPays pays;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(pays.next());
    pays.found_nothing();
  }
  for (int attempt = 0; attempt < 2; ++attempt) {
    for (int i = 0; i < 31; ++i) EXPECT_FALSE(pays.next());
    EXPECT_TRUE(pays.next());
    pays.found_nothing();
  }
  for (int i = 0; i < 31; ++i) EXPECT_FALSE(pays.next());
  EXPECT_TRUE(pays.next());
  pays.found();
  EXPECT_TRUE(pays.next());
}

}  // namespace
}  // namespace dlaunch::internal
