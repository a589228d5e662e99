#include "store/client/file_watch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "store/client/steady_time.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::store {
namespace {

using namespace std::chrono_literals;

class FileWatchTest : public testing::Test {
 protected:
  void write(const std::string& bytes) const { std::ofstream(path, std::ios::binary) << bytes; }

  test::TemporaryFolder folder;
  std::string path = folder.path() + "/store";
};

TEST_F(FileWatchTest, WatchReportsWritesAndKeepsItsDeadline) {
  write("");
  FileWatch watch(path);
  watch.await(deadline_after(steady_now(), 1ms));
  std::ofstream(path, std::ios::app) << "x" << std::flush;
  watch.await(deadline_after(steady_now(), 60s));  // returns: the write was after the watch began
  FileWatch nothing(folder.path() + "/not there");
  nothing.await(deadline_after(steady_now(), 1ms));
}

// Whatever the file system reports, no wait is longer than the next look.
TEST_F(FileWatchTest, ReturnsNowAndThenWithoutAChange) {
  write("");
  FileWatch watch(path);
  watch.await(TimePoint::max());
  FileWatch nothing(folder.path() + "/not there");
  nothing.await(TimePoint::max());
}

TEST_F(FileWatchTest, AFileThatAppearsIsSeenAtOnce) {
  FileWatch watch(path);
  write("x");
  watch.await(TimePoint::max());
  std::filesystem::remove(path);
  watch.await(TimePoint::max());
  write("y");
  watch.await(TimePoint::max());
}

TEST_F(FileWatchTest, APassedDeadlineIsNotWaitedFor) {
  write("");
  FileWatch watch(path);
  for (int i = 0; i < 1000; ++i) watch.await(TimePoint{});
}

}  // namespace
}  // namespace dlaunch::store
