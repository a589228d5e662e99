#include "agent/output/relay.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>

namespace dlaunch::agent {
namespace {

TEST(Relay, CountsWhatTheTargetHasTaken) {
  std::array<int, 2> target{};
  ASSERT_EQ(pipe(target.data()), 0);
  const auto relay = Relay::start(target[1]);
  ASSERT_TRUE(relay);
  ASSERT_EQ(write(relay->fd(), "a\nb", 3), 3);
  std::string text;
  while (text.size() < 3) {
    char piece[16];
    const ssize_t got = read(target[0], piece, sizeof piece);
    ASSERT_GT(got, 0);
    text.append(piece, static_cast<std::size_t>(got));
  }
  EXPECT_EQ(text, "a\nb");
  while (relay->bytes() < 3) poll(nullptr, 0, 1);  // counted after the write
  EXPECT_EQ(relay->bytes(), 3U);
  EXPECT_EQ(relay->lines(), 1U);
  close(target[0]);
  close(target[1]);
}

}  // namespace
}  // namespace dlaunch::agent
