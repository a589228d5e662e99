#include "agent/process/timer_fifo.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/store/client/temporary_folder.h"

namespace dlaunch::agent {
namespace {

class TimerFifoTest : public testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return folder_.path() + "/timers"; }
  [[nodiscard]] std::string error() const {
    const auto fifo = open_timer_fifo(path());
    if (fifo) close(fifo->fd);
    return fifo ? "" : fifo.error().message();
  }
  test::TemporaryFolder folder_;
};

TEST_F(TimerFifoTest, IsMadeForThisUserAndRemoved) {
  const auto fifo = open_timer_fifo(path());
  ASSERT_TRUE(fifo.ok());
  EXPECT_TRUE(fifo->is_ours);
  struct stat about {};
  ASSERT_EQ(stat(path().c_str(), &about), 0);
  EXPECT_TRUE(S_ISFIFO(about.st_mode));
  EXPECT_EQ(about.st_mode & 077U, 0U);
  remove_timer_fifo(*fifo);
  EXPECT_FALSE(std::filesystem::exists(path()));
  remove_timer_fifo(*fifo);
  remove_timer_fifo({});
  close(fifo->fd);
}

TEST_F(TimerFifoTest, OneOfTheUserIsReadAndKept) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  const auto fifo = open_timer_fifo(path());
  ASSERT_TRUE(fifo.ok());
  EXPECT_FALSE(fifo->is_ours);
  remove_timer_fifo(*fifo);
  EXPECT_TRUE(std::filesystem::exists(path()));
  close(fifo->fd);
}

TEST_F(TimerFifoTest, HasOneReader) {
  const auto first = open_timer_fifo(path());
  ASSERT_TRUE(first.ok());
  EXPECT_NE(error().find("another dlaunch reads this FIFO"), std::string::npos) << error();
  close(first->fd);
  EXPECT_EQ(error(), "");
}

TEST_F(TimerFifoTest, AnotherKindOfFileIsRejectedAndKept) {
  std::ofstream(path()) << "x";
  EXPECT_NE(error().find("it is not a FIFO of this user"), std::string::npos) << error();
  EXPECT_TRUE(std::filesystem::is_regular_file(path()));
}

// A successor has removed the FIFO and made another one at the same path.
TEST_F(TimerFifoTest, TheFifoOfAnotherJobIsNotRemoved) {
  const auto ours = open_timer_fifo(path());
  ASSERT_TRUE(ours.ok());
  std::filesystem::remove(path());
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  remove_timer_fifo(*ours);
  EXPECT_TRUE(std::filesystem::exists(path()));
  close(ours->fd);
}

}  // namespace
}  // namespace dlaunch::agent
