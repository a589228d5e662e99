#include "agent/observe/worker_pages.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/agent/model/made_page.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::agent {
namespace {

constexpr TimePoint now{std::chrono::seconds(100)};

class WorkerPagesTest : public testing::Test {
 protected:
  [[nodiscard]] std::string path(ProcKey key) const {
    return worker_page_path(folder_.path(), key.round, key.local_rank);
  }
  // A page of a rank of a world of two: it waits in its first collective.
  [[nodiscard]] MadePage waiting(int rank, pid_t owner) const {
    MadePage made(rank, 2);
    made.raw().header.owner = owner;
    made.add_group(1, "default");
    made.enter(1, page::Operation::all_reduce, 1, now.time_since_epoch().count() - 1000);
    return made;
  }
  void put(ProcKey key, const MadePage& made) const {
    const std::string target = path(key);
    std::filesystem::create_directories(std::filesystem::path(target).parent_path());
    const ByteSpan bytes = made.bytes();
    std::ofstream(target).write(reinterpret_cast<const char*>(bytes.data()),
                                static_cast<std::streamsize>(bytes.size()));
  }
  // A process that has ended and been reaped.
  static pid_t ended_process() {
    const pid_t pid = fork();
    if (pid == 0) _exit(0);
    waitpid(pid, nullptr, 0);
    return pid;
  }

  test::TemporaryFolder folder_;
  WorkerPages pages_{folder_.path()};
};

// Of a process that has no handler for the signal, no stack is requested.
TEST_F(WorkerPagesTest, AStackIsReportedOnceWhenItHasCome) {
  MadePage made = waiting(0, getpid());
  page::Crash& sample = made.raw().header.crash;
  sample.samples = 1;
  put({3, 0}, made);
  const std::vector<WorkerHere> workers{{0, 0, getpid()}};
  const auto stack = [&] { return pages_.group_progress(3, workers, 2, now).at(0).here.at(0).stack; };
  pages_.request_stack(3, 0, now);
  EXPECT_EQ(stack(), "") << "it has not come";
  sample.state = page::Crash::sampled;
  sample.signal = page::stack_signal;
  sample.address = static_cast<std::uint64_t>(now.time_since_epoch().count()) - 1;
  sample.frames = 1;
  sample.module_of[0] = page::Crash::no_module;
  sample.offsets[0] = 0x1234;
  put({3, 0}, made);
  EXPECT_EQ(stack(), "") << "of an earlier request";
  ++sample.address;
  put({3, 0}, made);
  EXPECT_EQ(stack(), "#0 0x1234");
  EXPECT_EQ(stack(), "");
}

TEST_F(WorkerPagesTest, ActivityIsTheSumOfTheWorkersThatRun) {
  put({3, 0}, waiting(0, getpid()));
  put({3, 1}, waiting(1, getpid()));
  const Activity both = pages_.activity(3, 2);
  EXPECT_EQ(both.open, 2U);
  EXPECT_EQ(both.moves, 2 * pages_.activity(3, 1).moves);
  put({3, 1}, waiting(1, ended_process()));
  EXPECT_EQ(pages_.activity(3, 2).open, 1U) << "one that has ended waits no longer";
  EXPECT_EQ(pages_.activity(4, 2), Activity{}) << "of another round";
}

TEST_F(WorkerPagesTest, ProgressNamesTheRanksThatHaveAPage) {
  put({3, 1}, waiting(1, getpid()));
  const std::vector<WorkerHere> workers{{0, 0, 0}, {1, 1, getpid()}};
  const auto progress = pages_.group_progress(3, workers, 2, now);
  ASSERT_EQ(progress.size(), 1U);
  EXPECT_EQ(progress[0].name, "default");
  ASSERT_EQ(progress[0].here.size(), 1U);
  EXPECT_EQ(progress[0].here[0].rank, 1);
  EXPECT_EQ(progress[0].here[0].operation, page::Operation::all_reduce);
}

TEST_F(WorkerPagesTest, ProgressNamesTheRanksThatHaveNoPageYet) {
  MadePage made(0, 3);
  made.raw().header.owner = getpid();
  made.raw().header.forming_ns = 1;
  put({3, 0}, made);
  EXPECT_EQ(pages_.activity(3, 3), (Activity{0, 0, 0, 1, 1}));
  const std::vector<WorkerHere> workers{{0, 0, getpid()}, {1, 1, getpid()}, {2, 2, ended_process()}};
  const auto progress = pages_.group_progress(3, workers, 3, now);
  ASSERT_EQ(progress.size(), 1U);
  EXPECT_EQ(progress[0].identity, GroupProgress::outside);
  ASSERT_EQ(progress[0].here.size(), 3U);
  EXPECT_TRUE(progress[0].here[0].waits_otherwise());
  EXPECT_FALSE(progress[0].here[1].waits_otherwise());
  EXPECT_EQ(progress[0].here[1].pid, getpid());
  EXPECT_EQ(progress[0].here[1].condition, Condition::runs);
  EXPECT_EQ(progress[0].here[2].condition, Condition::ended);
  made.raw().header.owner = ended_process();
  put({3, 0}, made);
  EXPECT_EQ(pages_.activity(3, 3), (Activity{0, 0, 0, 0, 1})) << "one that has ended waits no longer";
}

TEST_F(WorkerPagesTest, ExitRecordIsOfTheJobsWorldOnly) {
  MadePage made = waiting(0, ended_process());
  made.raw().header.left_in_exception = 1;
  put({3, 0}, made);
  EXPECT_TRUE(pages_.exit_record({3, 0}, 2).in_exception);
  EXPECT_FALSE(pages_.exit_record({3, 0}, 8).in_exception) << "the program had a world of its own";
  EXPECT_FALSE(pages_.exit_record({3, 1}, 2).in_exception) << "no page";
}

TEST_F(WorkerPagesTest, ANewWorkersPredecessorsPageIsRemoved) {
  pages_.prepare({3, 0});
  put({3, 0}, waiting(0, getpid()));
  put({3, 1}, waiting(1, getpid()));
  pages_.prepare({4, 0});
  EXPECT_FALSE(std::filesystem::exists(path({3, 0})));
  EXPECT_TRUE(std::filesystem::exists(path({3, 1})));
}

// Workers write there: nothing that they leave may stop the agent.
TEST_F(WorkerPagesTest, WhatIsNoPageIsNone) {
  const std::string place = folder_.path() + "/page";
  EXPECT_FALSE(read_worker_page(place)) << "missing";
  std::ofstream(place) << "short";
  EXPECT_FALSE(read_worker_page(place));
  std::filesystem::remove(place);
  ASSERT_EQ(mkfifo(place.c_str(), 0600), 0);
  EXPECT_FALSE(read_worker_page(place)) << "a FIFO without a writer";
  std::filesystem::remove(place);
  put({3, 0}, waiting(0, getpid()));
  ASSERT_TRUE(read_worker_page(path({3, 0})));
  EXPECT_EQ(read_worker_page(path({3, 0}))->condition, Condition::runs);
  std::filesystem::create_symlink(path({3, 0}), place);
  EXPECT_FALSE(read_worker_page(place)) << "a link";
  std::filesystem::resize_file(path({3, 0}), 100);
  EXPECT_FALSE(read_worker_page(path({3, 0}))) << "cut off";
}

TEST_F(WorkerPagesTest, WithoutAFolderThereAreNone) {
  WorkerPages none("");
  none.prepare({0, 0});
  EXPECT_EQ(none.activity(0, 4), Activity{});
  const std::vector<WorkerHere> workers{{0, 0, getpid()}};
  EXPECT_TRUE(none.group_progress(0, workers, 4, now).empty());
}

}  // namespace
}  // namespace dlaunch::agent
