#include "launcher/node/wall_clock.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

TEST(WallClock, IsTheTimeSince1970) {
  const std::int64_t before = std::int64_t{std::time(nullptr)} * 1'000'000;
  const std::int64_t now = unix_us();
  // time() may be a clock tick behind.
  EXPECT_GE(now, before);
  EXPECT_LE(now, (std::int64_t{std::time(nullptr)} + 2) * 1'000'000);
  EXPECT_LE(now / 1000, unix_ms());
}

}  // namespace
}  // namespace dlaunch::launcher
