// What an earlier leader of the same job leaves for the next agent on its machine.
#include "agent/process/leader_mark.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "store/loop/uv_loop.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::agent {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
namespace fs = std::filesystem;

class LeaderMarkTest : public ::testing::Test {
 protected:
  LeaderMark mark(const std::string& job = "job", Duration interval = hours(1)) {
    return LeaderMark({loop_, loop_}, folder_.path(), job, {"10.0.0.1", 29500}, interval);
  }
  fs::path only_file() const {
    const fs::directory_iterator files(folder_.path());
    EXPECT_NE(files, fs::directory_iterator());
    return files->path();
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_.path()), {}));
  }
  static void make_older(const fs::path& file, hours age) {
    fs::last_write_time(file, fs::last_write_time(file) - age);
  }

  UvLoop loop_;
  test::TemporaryFolder folder_;
};

TEST_F(LeaderMarkTest, OutlivesAnAgentThatDidNotRemoveIt) {
  EXPECT_FALSE(mark().was_left_within(minutes(1))) << "the first agent finds none";
  { ASSERT_TRUE(mark().keep()); }  // as after SIGKILL
  EXPECT_TRUE(mark().was_left_within(minutes(1)));
  EXPECT_FALSE(mark("other").was_left_within(minutes(1))) << "of another job";
  make_older(only_file(), hours(2));
  EXPECT_FALSE(mark().was_left_within(minutes(1))) << "its leases are over";
}

TEST_F(LeaderMarkTest, OrderlyEndRemovesItsOwnAndAnEarlierOne) {
  LeaderMark first = mark();
  ASSERT_TRUE(first.keep());
  first.remove();
  EXPECT_EQ(files(), 0U);
  { ASSERT_TRUE(mark().keep()); }
  mark().remove();
  EXPECT_EQ(files(), 0U);
}

TEST_F(LeaderMarkTest, IsRefreshedWhileTheAgentLives) {
  LeaderMark mark = this->mark("job", milliseconds(1));
  ASSERT_TRUE(mark.keep());
  make_older(only_file(), hours(2));
  const TimePoint deadline = loop_.now() + minutes(1);
  struct Look final : TimerHandler {
    void on_timer(TimerId) override {
      if (mark.was_left_within(minutes(1)) || loop.now() > deadline) return loop.stop();
      loop.arm(loop.now() + milliseconds(1), *this);
    }
    Look(UvLoop& running, const LeaderMark& seen, TimePoint until)
        : loop(running), mark(seen), deadline(until) {}
    UvLoop& loop;
    const LeaderMark& mark;
    TimePoint deadline;
  } look(loop_, mark, deadline);
  loop_.arm(loop_.now(), look);
  loop_.run();
  EXPECT_TRUE(mark.was_left_within(minutes(1)));
}

TEST_F(LeaderMarkTest, FilesOlderThanADayAreRemoved) {
  { ASSERT_TRUE(mark("earlier").keep()); }
  make_older(only_file(), hours(25));
  { ASSERT_TRUE(mark("yesterday").keep()); }
  EXPECT_EQ(files(), 1U);
  EXPECT_TRUE(mark("yesterday").was_left_within(minutes(1)));
}

// In a directory that everybody may write to, somebody else may have made that name.
TEST_F(LeaderMarkTest, FollowsNoLinkAndTrustsNoOtherKindOfFile) {
  { ASSERT_TRUE(mark().keep()); }
  const fs::path file = only_file();
  fs::remove(file);
  const fs::path target = fs::path(folder_.path()) / "target";
  fs::create_symlink(target, file);
  EXPECT_FALSE(mark().was_left_within(minutes(1)));
  const auto kept = mark().keep();
  ASSERT_FALSE(kept);
  EXPECT_NE(kept.error().message().find(file.string()), std::string::npos);
  EXPECT_FALSE(fs::exists(target));
}

}  // namespace
}  // namespace dlaunch::agent
