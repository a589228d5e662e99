#include "launcher/commands/inspection.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

using Words = std::vector<std::string>;

TEST(Inspection, AnOrderNamesItsWorkers) {
  const auto order = parse_inspection({"/scratch", "/flight", "3", "8", "0:4:4711", "1:5:0"});
  ASSERT_TRUE(order);
  EXPECT_EQ((std::tuple{order->scratch_dir, order->folder, order->round, order->world_size}),
            (std::tuple{std::string("/scratch"), std::string("/flight"), 3U, 8}));
  ASSERT_EQ(order->workers.size(), 2U);
  EXPECT_EQ((std::tuple{order->workers[0].local_rank, order->workers[0].rank, order->workers[0].pid}),
            (std::tuple{0U, 4, std::int64_t{4711}}));
  for (const Words& other : {Words{}, Words{"/scratch", "/flight", "3"}, Words{"/s", "/f", "x", "8"},
                             Words{"/s", "/f", "3", "8", "0:4"}, Words{"/s", "/f", "3", "8", "0:4:x"},
                             Words{"/s", "/f", "3", "8", "0:4:1:2"}})
    EXPECT_FALSE(parse_inspection(other));
}

TEST(Inspection, RanksWithTheSameStackShareASentence) {
  const Words wait{"wait (x.py:3)", "main (x.py:9)"};
  EXPECT_EQ(describe({{0, wait, "py-spy"}, {1, {"sleep"}, "gdb"}, {2, wait, "py-spy"}, {3, wait, "py-spy"}}),
            (Words{"ranks 0, 2 and 3 are in wait (x.py:3) < main (x.py:9), by py-spy",
                   "rank 1 is in sleep, by gdb"}));
  EXPECT_EQ(describe({{1, {}, "sleeps in the kernel (futex_wait_queue)"}}),
            Words{"rank 1: sleeps in the kernel (futex_wait_queue)"});
  EXPECT_EQ(describe({}), Words{});
}

}  // namespace
}  // namespace dlaunch::launcher
