#include "agent/observe/postmortem.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "agent/model/error_file.h"
#include "agent/output/log_dir.h"
#include "tests/agent/observe/exited.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::agent {
namespace {

constexpr ProcKey key{1, 2};
constexpr const char* error_text =
    R"({"message": {"message": "ValueError: no such file", "extraInfo": {"py_callstack": "at f", "timestamp": "5"}}})";

class PostmortemTest : public testing::Test {
 protected:
  PostmortemTest() { postmortem_.begin(); }
  void write_error_file(const std::string& text) {
    std::ofstream(error_file_path(folder_.path(), key.round, key.local_rank)) << text;
  }
  WorkerExit examine(ExitStatus status, bool killed = false, std::string tail = "") {
    WorkerExit exit;
    exit.status = status;
    exit.tail = std::move(tail);
    postmortem_.examine(key, getpid(), killed, exit);
    return exit;
  }
  test::TemporaryFolder folder_;
  std::string logs_ = folder_.path() + "/logs";
  std::vector<std::string> warnings_;
  Postmortem postmortem_{folder_.path(), logs_,
                         [this](const std::string& text) { warnings_.push_back(text); }};
};

TEST_F(PostmortemTest, ReadsTheErrorFileAndKeepsACopy) {
  write_error_file(error_text);
  const WorkerExit exit = examine(exited(1));
  EXPECT_EQ(exit.exception, "ValueError: no such file");
  EXPECT_EQ(exit.traceback, "at f");
  EXPECT_TRUE(exit.since_exception);
  EXPECT_GT(exit.unix_ms, 0);
  std::ostringstream copy;
  copy << std::ifstream(worker_log_dir(logs_, key.round, key.local_rank) + "/error.json").rdbuf();
  EXPECT_EQ(copy.str(), error_text);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(PostmortemTest, WarnsOfAMalformedErrorFile) {
  write_error_file("red");
  const WorkerExit exit = examine(exited(1));
  EXPECT_EQ(exit.exception, "");
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_EQ(warnings_[0],
            "local rank 2: cannot read its error file: it is not a JSON object; it begins with 'red'");
}

TEST_F(PostmortemTest, WithoutAnErrorFileThereIsNoException) {
  const WorkerExit exit = examine(exited(1));
  EXPECT_EQ(exit.exception, "");
  EXPECT_FALSE(exit.since_exception);
  EXPECT_FALSE(std::filesystem::exists(logs_));
}

TEST_F(PostmortemTest, NamesASignalThatTheJobItselfHasSent) {
  postmortem_.ask_of_signals([](ProcKey asked) -> std::optional<Postmortem::Sent> {
    if (asked != key) return std::nullopt;
    return Postmortem::Sent{SIGKILL, "its timer 'step' expired"};
  });
  EXPECT_EQ(examine({ExitStatus::How::signaled, SIGKILL, false}).hint, "its timer 'step' expired");
  EXPECT_EQ(examine(exited(137)).hint, "its timer 'step' expired") << "a shell passes it on";
  EXPECT_TRUE(
      examine(exited(3)).hint.starts_with("it had received SIGKILL because its timer 'step' expired"));
}

TEST_F(PostmortemTest, ExplainsNothingAboutWorkersThatDlaunchKilled) {
  EXPECT_EQ(examine({ExitStatus::How::signaled, SIGKILL, false}, true).hint, "");
}

TEST_F(PostmortemTest, ReadsTheLastLines) {
  const std::string tail = "terminate called after throwing an instance of 'E'\n  what():  bad";
  EXPECT_TRUE(examine({ExitStatus::How::signaled, SIGABRT, false}, false, tail).hint.starts_with("E: bad"));
}

TEST_F(PostmortemTest, SuggestsWhatToTry) {
  Postmortem postmortem("", "", nullptr, {"b", {"./train"}, ""});
  postmortem.begin();
  WorkerExit exit;
  exit.status = exited(127);
  exit.tail = "./train: error while loading shared libraries: libx.so.1: cannot open shared object file: No";
  postmortem.examine(key, getpid(), false, exit);
  EXPECT_EQ(exit.hint, "the shared library libx.so.1 was not found");
  EXPECT_TRUE(exit.remedy.starts_with("ldd ./train on host b ")) << exit.remedy;
  WorkerExit stopped = exit;
  stopped.remedy.clear();
  postmortem.examine(key, getpid(), true, stopped);
  EXPECT_EQ(stopped.remedy, "") << "dlaunch itself has killed it";
}

}  // namespace
}  // namespace dlaunch::agent
