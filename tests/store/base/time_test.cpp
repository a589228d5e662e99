#include "store/base/time.h"

#include <gtest/gtest.h>

namespace dlaunch::store {
namespace {

using std::chrono::milliseconds;

TEST(Time, IsWrittenInTheUnitThatFits) {
  const struct {
    std::int64_t ms;
    const char* words;
  } cases[]{{0, "0 ms"},
            {999, "999 ms"},
            {1000, "1 s"},
            {1049, "1 s"},
            {1050, "1.1 s"},
            {3200, "3.2 s"},
            {59'000, "59 s"},
            {60'000, "1 min 0 s"},
            {725'000, "12 min 5 s"},
            {725'999, "12 min 5 s"},
            {7'200'000, "120 min 0 s"}};
  for (const auto& one : cases) EXPECT_EQ(to_words(milliseconds(one.ms)), one.words) << one.ms;
  EXPECT_EQ(to_words(std::chrono::microseconds(900)), "0 ms");
}

TEST(Time, IsConvertedToOtherUnits) {
  EXPECT_EQ(to_seconds(milliseconds(1500)), 1.5);
  EXPECT_EQ(to_millis(std::chrono::seconds(2)), 2000);
  EXPECT_EQ(to_millis(std::chrono::microseconds(1999)), 1) << "not rounded up";
}

}  // namespace
}  // namespace dlaunch::store
