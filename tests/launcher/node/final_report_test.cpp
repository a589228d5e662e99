#include "launcher/node/final_report.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "agent/model/error_file.h"
#include "agent/output/log_dir.h"
#include "launcher/remote/remote_protocol.h"
#include "store/base/log.h"
#include "store/loop/uv_loop.h"
#include "store/loop/uv_poller.h"
#include "tests/launcher/own_process.h"

namespace dlaunch::launcher {
namespace {

using test::content_of;

constexpr const char* own_error_file =
    R"({"message": {"message": "ValueError: x", "extraInfo": {"timestamp": "1700000000"}}})";

// Of local rank 1 on this node, in round 2. The folder holds what the job leaves.
class FinalReportTest : public testing::Test {
 protected:
  FinalReportTest() {
    report_.node.node_rank = 1;
    report_.node.scratch_dir = folder_.path();
    report_.outcome.failed = true;
    report_.outcome.exit_code = 3;
    agent::Failure& cause = report_.outcome.cause;
    cause.kind = agent::FailureKind::worker;
    cause.round = 2;
    cause.node_rank = 1;
    cause.rank = 5;
    cause.local_rank = 1;
    cause.host = "b";
    cause.pid = 4711;
    cause.status = {agent::ExitStatus::How::exited, 3, false};
    cause.tail = "ValueError: x";
  }
  void write_error_file(const std::string& text) const {
    std::ofstream(agent::error_file_path(folder_.path(), 2, 1)) << text;
  }
  // Writes the reports; returns the warnings.
  std::vector<std::string> written(const std::optional<std::string>& error_text = std::nullopt) {
    std::vector<std::string> lines;
    log::start("t", log::Level::warning, false, [&](std::string_view line) { lines.emplace_back(line); });
    write_reports(report_, error_text, options_, environment_);
    log::stop();
    return lines;
  }
  // What the end report prints.
  [[nodiscard]] std::string printed(bool again = false) const {
    return test::in_own_process([&] {
             UvLoop loop;
             UvPoller poller(loop);
             agent::Output output(poller, {});
             log::start("t", log::Level::info, false, [&](std::string_view line) { output.write_own(line); });
             report_end(report_, options_, output, again);
             log::stop();
             return 0;
           })
        .printed;
  }

  test::TemporaryFolder folder_;
  JobReport report_;
  Options options_;
  EnvironmentMap environment_;
};

TEST_F(FinalReportTest, OnlyAWorkerOfThisNodeFailedHere) {
  EXPECT_TRUE(failed_here(report_));
  report_.outcome.cause.node_rank = 0;
  EXPECT_FALSE(failed_here(report_));
  report_.outcome.cause.node_rank = 1;
  report_.outcome.cause.kind = agent::FailureKind::signal;
  EXPECT_FALSE(failed_here(report_));
  report_.outcome.cause.kind = agent::FailureKind::worker;
  report_.outcome.failed = false;
  EXPECT_FALSE(failed_here(report_));
}

TEST_F(FinalReportTest, TheCausesErrorFileGetsTheJobsExitCode) {
  write_error_file(own_error_file);
  const auto text = error_text_of_cause(report_);
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, agent::with_error_code(own_error_file, 3));
  EXPECT_NE(text->find("errorCode"), std::string::npos);
}

TEST_F(FinalReportTest, ThereMayBeNoErrorText) {
  EXPECT_FALSE(error_text_of_cause(report_)) << "the worker wrote none";
  write_error_file("no JSON");
  EXPECT_FALSE(error_text_of_cause(report_));
  write_error_file(R"({"message": {"message": ")" + std::string(agent::longest_error_file, 'x') + "\"}}");
  EXPECT_FALSE(error_text_of_cause(report_)) << "it is too long";
  write_error_file(own_error_file);
  report_.outcome.cause.round = 1;
  EXPECT_FALSE(error_text_of_cause(report_)) << "it is of another round";
  report_.outcome.cause.round = 2;
  report_.outcome.cause.node_rank = 0;
  EXPECT_FALSE(error_text_of_cause(report_)) << "the cause was on another node";
  report_.outcome.cause.node_rank = 1;
  report_.node.scratch_dir.clear();
  EXPECT_FALSE(error_text_of_cause(report_));
}

TEST_F(FinalReportTest, TheKeptErrorFileIsNamedBeforeThatOfTheCallingAgent) {
  EXPECT_EQ(error_file_of_cause(report_, "text", "/passed/on"), "/passed/on");
  EXPECT_EQ(error_file_of_cause(report_, std::nullopt, "/passed/on"), "") << "nothing is written there";
  report_.log_dir = folder_.path() + "/logs";
  EXPECT_EQ(error_file_of_cause(report_, "text", "/passed/on"), "/passed/on") << "it was not kept";
  const std::string kept = agent::worker_log_dir(report_.log_dir, 2, 1);
  std::filesystem::create_directories(kept);
  std::ofstream(kept + "/error.json") << own_error_file;
  EXPECT_EQ(error_file_of_cause(report_, "text", "/passed/on"), kept + "/error.json");
  report_.outcome.cause.node_rank = 0;
  EXPECT_EQ(error_file_of_cause(report_, "text", "/passed/on"), "");
}

TEST_F(FinalReportTest, PeopleGetParagraphsAndTheLastOneAgain) {
  const std::string all = printed();
  EXPECT_NE(all.find("ValueError: x"), std::string::npos) << all;
  const std::string last = printed(true);
  EXPECT_TRUE(last.starts_with("t: failed: rank 5 ")) << last;
  EXPECT_TRUE(all.ends_with(last)) << all;
  EXPECT_GT(all.size(), last.size());
}

TEST_F(FinalReportTest, NothingIsPrintedAfterASuccess) {
  report_.outcome = {};
  EXPECT_EQ(printed(), "");
  EXPECT_EQ(printed(true), "");
}

TEST_F(FinalReportTest, TheStarterGetsMessagesAndTheExitCodeLast) {
  options_.lifeline = LifelineTerms{"KEY", false, false, false};
  options_.report = "/the/starters/report.json";
  const std::string bytes = to_line("KEY", {AgentMessage::Kind::ready, ""}) + printed();
  AgentStream stream("KEY");
  std::vector<AgentMessage> messages;
  for (const StreamPart& part : stream.take(bytes)) {
    if (part.kind == StreamPart::Kind::message && part.message.kind != AgentMessage::Kind::ready)
      messages.push_back(part.message);
  }
  ASSERT_GE(messages.size(), 4U);
  EXPECT_EQ(messages[0].kind, AgentMessage::Kind::report);
  const AgentMessage& last_paragraph = messages[messages.size() - 3];
  EXPECT_EQ(last_paragraph.kind, AgentMessage::Kind::report);
  EXPECT_TRUE(last_paragraph.text.starts_with("failed: rank 5 ")) << last_paragraph.text;
  EXPECT_EQ(messages[messages.size() - 2].kind, AgentMessage::Kind::json);
  EXPECT_EQ(messages.back(), (AgentMessage{AgentMessage::Kind::end, "3"}));
}

TEST_F(FinalReportTest, TheReportIsAFileOnlyWithoutAStarter) {
  options_.report = folder_.path() + "/report.json";
  EXPECT_TRUE(written().empty());
  EXPECT_NE(content_of(options_.report).find("\"exit_code\": 3"), std::string::npos);
  std::filesystem::remove(options_.report);
  options_.lifeline = LifelineTerms{"KEY", false, false, false};
  EXPECT_TRUE(written().empty());
  EXPECT_FALSE(std::filesystem::exists(options_.report)) << "the starter writes it, on its own host";
}

TEST_F(FinalReportTest, AnAgentThatStartedThisDlaunchGetsAnErrorFile) {
  const std::string path = folder_.path() + "/own.json";
  environment_["TORCHELASTIC_ERROR_FILE"] = path;
  EXPECT_TRUE(written("the worker's own").empty());
  EXPECT_EQ(content_of(path), "the worker's own");
  EXPECT_TRUE(written().empty());
  const auto made = agent::parse_error_file(content_of(path));
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(made->message.starts_with("rank 5 ")) << made->message;
  EXPECT_EQ(made->traceback, "ValueError: x");
}

TEST_F(FinalReportTest, ASuccessLeavesNoErrorFile) {
  environment_["TORCHELASTIC_ERROR_FILE"] = folder_.path() + "/own.json";
  report_.outcome = {};
  EXPECT_TRUE(written().empty());
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/own.json"));
}

TEST_F(FinalReportTest, AFileThatCannotBeWrittenIsAWarning) {
  options_.report = folder_.path() + "/missing/report.json";
  environment_["TORCHELASTIC_ERROR_FILE"] = folder_.path() + "/missing/own.json";
  const auto lines = written();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_NE(lines[0].find(options_.report), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("/missing/own.json"), std::string::npos) << lines[1];
}

}  // namespace
}  // namespace dlaunch::launcher
