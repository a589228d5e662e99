#include "agent/observe/kept_rounds.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "agent/model/worker_record.h"
#include "agent/observe/worker_pages.h"
#include "tests/agent/model/made_page.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::agent {
namespace {

namespace fs = std::filesystem;

class KeptRounds : public testing::Test {
 protected:
  void put_page(std::uint32_t round, std::uint32_t local_rank) const {
    const MadePage made(static_cast<int>(local_rank), 2);
    const ByteSpan bytes = made.bytes();
    std::ofstream(worker_page_path(pages_.path(), round, local_rank))
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  void keep(int round) const {
    JobStatus status;
    status.job = "j";
    status.state = "stopping";
    status.round = round;
    status.steady_ns = 77;
    status.workers = {{0, 0, 4711, "running", ""}, {1, 1, 4712, "running", ""}};
    keep_round(status, pages_.path(), logs_.path());
  }
  [[nodiscard]] std::string records(int round) const {
    return logs_.path() + "/attempt_" + std::to_string(round) + "/records";
  }

  test::TemporaryFolder pages_;
  test::TemporaryFolder logs_;
};

TEST_F(KeptRounds, HaveTheStatusAndThePagesOfTheirWorkers) {
  put_page(3, 1);
  keep(3);
  for (const std::string& directory : {logs_.path(), records(3)}) {
    const auto rounds = kept_rounds(directory);
    ASSERT_TRUE(rounds) << rounds.error().message();
    ASSERT_EQ(rounds->size(), 1U);
    const JobStatus& round = rounds->front();
    EXPECT_EQ(round.job, "j");
    EXPECT_EQ(round.agent, getpid());
    EXPECT_EQ(round.state, "ended");
    EXPECT_EQ(round.steady_ns, 77);
    EXPECT_EQ(round.workers.at(1).pid, 4712);
    EXPECT_EQ(round.workers.at(1).state, "ended");
    EXPECT_FALSE(read_worker_page(worker_page_path(round.pages_dir, 3, 0))) << "it had no page";
    EXPECT_TRUE(read_worker_page(worker_page_path(round.pages_dir, 3, 1)));
  }
}

TEST_F(KeptRounds, WithoutAPageNothingIsKept) {
  std::ofstream(worker_page_path(pages_.path(), 0, 0)) << "no page";
  fs::create_symlink("/etc/passwd", worker_page_path(pages_.path(), 0, 1));
  keep(0);
  EXPECT_TRUE(fs::is_empty(logs_.path()));
}

TEST_F(KeptRounds, TheLastOnesStay) {
  put_page(0, 0);
  put_page(1, 0);
  put_page(16, 0);
  keep(0);
  keep(1);
  keep(16);
  EXPECT_FALSE(fs::exists(records(0)));
  const auto rounds = kept_rounds(logs_.path());
  ASSERT_TRUE(rounds);
  ASSERT_EQ(rounds->size(), 2U);
  EXPECT_EQ(rounds->front().round, 1);
  EXPECT_EQ(rounds->back().round, 16);
}

TEST_F(KeptRounds, WhatCannotBeWrittenIsLeftOut) {
  put_page(2, 0);
  std::ofstream(logs_.path() + "/attempt_2") << "a file in the way";
  keep(2);
  EXPECT_FALSE(kept_rounds(logs_.path()));
}

TEST_F(KeptRounds, OtherFilesAreNone) {
  const auto none = kept_rounds(logs_.path());
  ASSERT_FALSE(none);
  EXPECT_TRUE(none.error().message().starts_with(logs_.path() + " has no records of a round; "));
  EXPECT_FALSE(kept_rounds(logs_.path() + "/absent"));
  fs::create_directories(records(0));
  std::ofstream(records(0) + "/node.json") << R"({"job": 1})";
  EXPECT_FALSE(kept_rounds(logs_.path()));
  // What lies deeper is another program's.
  put_page(1, 0);
  keep(1);
  const std::string deep = logs_.path() + "/a/b/c/d/e";
  fs::create_directories(deep);
  fs::rename(records(1), deep + "/records");
  EXPECT_FALSE(kept_rounds(logs_.path()));
  EXPECT_TRUE(kept_rounds(deep));
}

}  // namespace
}  // namespace dlaunch::agent
