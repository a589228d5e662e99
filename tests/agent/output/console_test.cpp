#include "agent/output/console.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace dlaunch::agent {
namespace {

// A full pipe or socket pair.
class ConsoleTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe2(ends_.data(), O_CLOEXEC), 0); }
  void TearDown() override {
    for (const int fd : ends_) close(fd);
  }

  // Everything that can be read at once.
  std::string read_all() {
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    std::string text;
    char bytes[4096];
    for (ssize_t got = 0; (got = read(ends_[0], bytes, sizeof bytes)) > 0;)
      text.append(bytes, static_cast<std::size_t>(got));
    return text;
  }
  void read_one_byte() {
    char byte = 0;
    ASSERT_EQ(read(ends_[0], &byte, 1), 1);
  }
  static void fill(Console& console) {
    while (console.is_empty()) console.write("0123456789\n");
  }

  std::array<int, 2> ends_{};  // to read, to write
};

TEST_F(ConsoleTest, AReaderThatTakesOneByteHasMoved) {
  Console console(ends_[1]);
  fill(console);
  EXPECT_TRUE(console.has_moved()) << "it took what the pipe holds";
  EXPECT_FALSE(console.has_moved());
  read_one_byte();
  console.push();
  EXPECT_TRUE(console.has_moved()) << "though the pipe takes no more for that";
  EXPECT_FALSE(console.has_moved());
}

TEST_F(ConsoleTest, AReaderOfASocketHasMoved) {
  for (const int fd : ends_) close(fd);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_.data()), 0);
  Console console(ends_[1]);
  fill(console);
  EXPECT_TRUE(console.has_moved());
  EXPECT_FALSE(console.has_moved());
  for (int i = 0; i < 11; ++i) read_one_byte();  // these were written at once
  EXPECT_TRUE(console.has_moved());
}

TEST_F(ConsoleTest, DroppedOutputIsCounted) {
  Console console(ends_[1]);
  fill(console);
  const std::string more = "a line\nand a half";
  console.write(more);
  console.give_up();
  EXPECT_TRUE(console.is_empty());
  const std::string taken = read_all();
  const auto lines = static_cast<std::uint64_t>(std::count(taken.begin(), taken.end(), '\n'));
  // A pipe takes a short line as a whole or not at all.
  EXPECT_EQ(console.dropped().bytes, (lines + 1) * 11 - taken.size() + more.size());
  EXPECT_EQ(console.dropped().lines, 3U);
}

TEST_F(ConsoleTest, OutputAfterAGapBeginsALineAndDoesNotWait) {
  Console console(ends_[1]);
  console.write(std::string(1U << 20, 'x'));
  console.give_up();
  const std::uint64_t before = console.dropped().bytes;
  ASSERT_FALSE(read_all().empty());
  console.write("the last line\n");
  EXPECT_EQ(console.dropped().bytes, before);
  EXPECT_EQ(read_all(), "\nthe last line\n");
  const std::string large(1U << 20, 'x');
  console.write(large);
  EXPECT_TRUE(console.is_empty());
  EXPECT_EQ(console.dropped().bytes, before + large.size() - read_all().size());
}

}  // namespace
}  // namespace dlaunch::agent
