// Data cut into parts at random.

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

#include "dlaunch/sampler.h"
#include "tests/runtime/api/error_strings.h"

namespace dlaunch {
namespace {

using Items = std::vector<std::size_t>;

Items part(const DataPartitioner& data, std::size_t number) {
  const auto items = data.use(number);
  return {items.begin(), items.end()};
}

// The tutorial's: sizes=[0.7, 0.2, 0.1], seed=1234.
TEST(DataPartitioner, GivesThePartsOfTheTutorial) {
  const DataPartitioner data(20, std::array{0.7, 0.2, 0.1});
  ASSERT_EQ(data.parts(), 3U);
  EXPECT_EQ(part(data, 0), (Items{19, 13, 4, 9, 16, 7, 6, 8, 17, 18, 5, 12, 15, 11}));
  EXPECT_EQ(part(data, 1), (Items{10, 1, 2, 0}));
  EXPECT_EQ(part(data, 2), (Items{3, 14}));
}

TEST(DataPartitioner, LeavesItemsOut) {
  const DataPartitioner data(10, std::array{0.25, 0.25}, 0);
  EXPECT_EQ(part(data, 0), (Items{7, 8}));
  EXPECT_EQ(part(data, 1), (Items{1, 5}));
  const DataPartitioner none(0, std::array{0.5, 0.5});
  EXPECT_TRUE(none.use(1).empty());
  EXPECT_EQ(DataPartitioner(10, {}).parts(), 0U);
}

TEST(DataPartitioner, RejectsWhatIsNoPart) {
  EXPECT_EQ(test::error_of([] {
              const DataPartitioner data(10, std::array{0.5, 0.6});
            }),
            "DataPartitioner: the fractions are 1.100000 together, more than 1");
  EXPECT_EQ(test::error_of([] {
              const DataPartitioner data(10, std::array{0.5, -0.1});
            }),
            "DataPartitioner: -0.100000 is no part of the data");
  EXPECT_TRUE(test::error_contains(
      [] { const DataPartitioner data(10, std::array{std::numeric_limits<double>::quiet_NaN()}); },
      "is no part of the data"));
  EXPECT_EQ(test::error_of([] { const DataPartitioner data(std::size_t{1} << 32U, std::array{0.5}); }),
            "DataPartitioner: there are 4294967296 items; the limit is 2^32");
  const DataPartitioner data(10, std::array{0.5});
  EXPECT_EQ(test::error_of([&] { static_cast<void>(data.use(1)); }),
            "DataPartitioner: there is no part 1 of 1");
}

}  // namespace
}  // namespace dlaunch
