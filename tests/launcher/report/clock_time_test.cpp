#include "launcher/report/clock_time.h"

#include <gtest/gtest.h>

#include <ctime>

#include "tests/runtime/api/variable.h"

namespace dlaunch::launcher {
namespace {

class ClockTime : public testing::Test {
 protected:
  ~ClockTime() override {
    zone_.set(nullptr);
    tzset();
  }
  void set_zone(const char* zone) const {
    zone_.set(zone);
    tzset();
  }
  test::Variable zone_{"TZ", nullptr};
};

TEST_F(ClockTime, IsInThisMachinesZone) {
  set_zone("UTC");
  EXPECT_EQ(clock_time(0), "00:00:00");
  EXPECT_EQ(clock_time(1'700'000'000'000), "22:13:20");
  set_zone("UTC-5:30");
  EXPECT_EQ(clock_time(0), "05:30:00");
}

TEST_F(ClockTime, ASecondLastsUntilItsEnd) {
  set_zone("UTC");
  EXPECT_EQ(clock_time(59'999), "00:00:59");
  EXPECT_EQ(clock_time(60'000), "00:01:00");
  EXPECT_EQ(clock_time(86'400'000), "00:00:00");
}

}  // namespace
}  // namespace dlaunch::launcher
