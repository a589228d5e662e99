#include "agent/output/pseudo_terminal.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace dlaunch::agent {
namespace {

class PseudoTerminalTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto opened = open_pseudo_terminal();
    if (!opened) GTEST_SKIP() << "no terminal can be made here";
    terminal_ = *opened;
  }
  ~PseudoTerminalTest() override {
    if (terminal_.agent >= 0) close(terminal_.agent);
    if (terminal_.worker >= 0) close(terminal_.worker);
  }
  // Waits for something to read. -1: errno has the reason.
  [[nodiscard]] ssize_t read_agent(char* into, std::size_t size) const {
    pollfd ready{terminal_.agent, POLLIN, 0};
    EXPECT_EQ(poll(&ready, 1, 60'000), 1);
    return read(terminal_.agent, into, size);
  }
  PseudoTerminal terminal_;
};

TEST_F(PseudoTerminalTest, PassesBytesUnchanged) {
  EXPECT_TRUE(isatty(terminal_.worker));
  ASSERT_EQ(write(terminal_.worker, "a\nb\r", 4), 4);
  char text[16];
  EXPECT_EQ(std::string(text, static_cast<std::size_t>(read_agent(text, sizeof text))), "a\nb\r");
}

TEST_F(PseudoTerminalTest, ReadingNeitherBlocksNorOutlivesTheWorkersEnd) {
  char text[16];
  EXPECT_EQ(read(terminal_.agent, text, sizeof text), -1);
  EXPECT_EQ(errno, EAGAIN);
  close(terminal_.worker);
  terminal_.worker = -1;
  EXPECT_EQ(read_agent(text, sizeof text), -1);
  EXPECT_EQ(errno, EIO);
}

TEST_F(PseudoTerminalTest, HasTheSizeThatIsSet) {
  set_window_size(terminal_.agent, {7, 33, 0, 0});
  winsize size{};
  ASSERT_EQ(ioctl(terminal_.worker, TIOCGWINSZ, &size), 0);
  EXPECT_EQ(size.ws_row, 7);
  EXPECT_EQ(size.ws_col, 33);
  EXPECT_GT(own_window_size().ws_col, 0);
}

}  // namespace
}  // namespace dlaunch::agent
