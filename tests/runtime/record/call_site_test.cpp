// Where the program calls its operations, recorded and read back as the agent reads it.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "agent/observe/worker_pages.h"
#include "runtime/record/recorder.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::internal {
namespace {

using agent::WorkerRecord;
using page::Operation;

class CallSiteTest : public ::testing::Test {
 protected:
  GroupRecorder open(int rank, int size) {
    static constexpr std::array ranks{0, 1};
    recorder_.open(path_, rank, size);
    return recorder_.add({"job/default/0", "default", "gloo", rank, ranks});
  }
  WorkerRecord read() {
    const auto seen = agent::read_worker_page(path_);
    EXPECT_TRUE(seen);
    return seen ? seen->record : WorkerRecord{};
  }
  static Timeout within(std::uint32_t ms) { return timeout_from_now(std::chrono::milliseconds(ms)); }
  static constexpr GroupRecorder::What floats{Operation::all_reduce, DType::float32, 1024, 1024};

  test::TemporaryFolder folder_;
  std::string path_ = agent::worker_page_path(folder_.path(), 0, 0);
  Recorder recorder_;
};

TEST_F(CallSiteTest, AnOperationHasTheLineOfTheThreadThatBeginsIt) {
  EXPECT_EQ(recorder_.add_call_site("train.py", 1, "early"), 0U) << "there is no page yet";
  const GroupRecorder group = open(0, 2);
  const std::uint32_t step = recorder_.add_call_site("/srv/train.py", 42, "step");
  const std::uint32_t top = recorder_.add_call_site("/srv/train.py", 7, "");
  thread_call_site() = step;
  group.begin(floats, 1, -1, within(5000));
  std::thread([&] { group.begin(floats, 2, -1, within(5000)); }).join();
  thread_call_site() = top;
  group.begin(floats, 3, -1, within(5000));
  thread_call_site() = 0;
  group.begin(floats, 4, -1, within(5000));
  const WorkerRecord record = read();
  std::vector<std::string> called;
  for (const WorkerRecord::Entry& entry : record.entries) called.push_back(record.call_site_of(entry));
  EXPECT_EQ(called, (std::vector<std::string>{"train.py:42 in step", "", "train.py:7", ""}));
}

TEST_F(CallSiteTest, TheLatestLinesOfTheProgramAreKept) {
  const GroupRecorder group = open(0, 2);
  const std::string path = "/" + std::string(200, 'd') + "/train.py";
  for (std::uint32_t line = 1; line <= page::max_call_sites + 1; ++line) {
    thread_call_site() = recorder_.add_call_site(path, line, std::string(100, 'f'));
    if (line == 1 || line > page::max_call_sites - 1) group.begin(floats, line, -1, within(5000));
  }
  thread_call_site() = 0;
  const WorkerRecord record = read();
  ASSERT_EQ(record.entries.size(), 3U);
  EXPECT_EQ(record.call_site_of(record.entries[0]), "") << "another line has its place";
  EXPECT_EQ(record.call_site_of(record.entries[1]), "train.py:256 in " + std::string(48, 'f'));
  EXPECT_EQ(record.call_site_of(record.entries[2]), "train.py:257 in " + std::string(48, 'f'));
  EXPECT_EQ(record.call_sites.at(257).file, path.substr(path.size() - 104));
}

}  // namespace
}  // namespace dlaunch::internal
