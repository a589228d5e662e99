#include "launcher/node/node_output.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "store/base/log.h"
#include "store/loop/uv_loop.h"
#include "store/loop/uv_poller.h"
#include "tests/launcher/own_process.h"

namespace dlaunch::launcher {
namespace {

class NodeOutputTest : public testing::Test {
 protected:
  NodeOutputTest() {
    plan_.job.id = "job";
    plan_.node.host = "b";
    plan_.node.role = "trainer";
  }
  agent::Output::Style style() { return output_style(plan_, options_, "/logs", environment_); }
  // The log lines of a node, one of each level.
  std::string logged() {
    return test::in_own_process([&] {
             UvLoop loop;
             UvPoller poller(loop);
             agent::Output output(poller, style());
             start_log(plan_, options_, output);
             LogReporter reporter;
             reporter.report({agent::Severity::debug, "a detail"});
             reporter.report({agent::Severity::info, "a fact"});
             reporter.report({agent::Severity::warning, "a problem"});
             log::stop();
             return 0;
           })
        .printed;
  }

  test::TemporaryFolder folder_;
  JobPlan plan_;
  Options options_;
  EnvironmentMap environment_;
};

TEST_F(NodeOutputTest, AJobThatWantsNoFilesMakesNone) {
  plan_.log.dir = folder_.path() + "/logs";
  const auto files = open_output_files(plan_, options_);
  ASSERT_TRUE(files.ok());
  EXPECT_EQ(files->log_dir, "");
  EXPECT_FALSE(files->events);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(NodeOutputTest, LogDirectoryAndEventsFileAreMade) {
  plan_.log.dir = folder_.path() + "/logs";
  plan_.log.redirects.all = agent::Streams::both;
  options_.events = folder_.path() + "/events";
  auto files = open_output_files(plan_, options_);
  ASSERT_TRUE(files.ok());
  EXPECT_TRUE(files->log_dir.starts_with(folder_.path() + "/logs/job_")) << files->log_dir;
  EXPECT_TRUE(std::filesystem::is_directory(files->log_dir));
  ASSERT_TRUE(files->events);
  files->events->write("{}\n");
  EXPECT_EQ(test::content_of(options_.events), "{}\n");
}

TEST_F(NodeOutputTest, AFileThatCannotBeOpenedIsAnErrorThatNamesIt) {
  options_.events = folder_.path() + "/missing/events";
  const auto events = open_output_files(plan_, options_);
  ASSERT_FALSE(events.ok());
  EXPECT_NE(events.error().message().find(options_.events), std::string::npos) << events.error().message();
  plan_.log.dir = "/proc/logs";
  plan_.log.tee.all = agent::Streams::out;
  const auto logs = open_output_files(plan_, options_);
  ASSERT_FALSE(logs.ok());
  EXPECT_NE(logs.error().message().find("/proc/logs"), std::string::npos) << logs.error().message();
}

TEST_F(NodeOutputTest, OneWorkersBytesAreForwardedAsTheyCome) {
  EXPECT_FALSE(style().whole_lines);
  plan_.node.slots = 2;
  EXPECT_TRUE(style().whole_lines);
  plan_.node.slots = 1;
  options_.lifeline = LifelineTerms{};
  EXPECT_TRUE(style().whole_lines) << "the starter mixes them with those of other nodes";
}

TEST_F(NodeOutputTest, StyleNamesTheNode) {
  const auto made = style();
  EXPECT_EQ(made.host, "b");
  EXPECT_EQ(made.role, "trainer");
  EXPECT_EQ(made.log_dir, "/logs");
  EXPECT_FALSE(made.time_of_day().empty());
}

TEST_F(NodeOutputTest, NoColorCountsIfItIsNotEmpty) {
  EXPECT_TRUE(style().colours);
  environment_["NO_COLOR"] = "";
  EXPECT_TRUE(style().colours);
  environment_["NO_COLOR"] = "1";
  EXPECT_FALSE(style().colours);
}

TEST_F(NodeOutputTest, TheStartersTerminalDecides) {
  environment_["NO_COLOR"] = "1";  // of this host
  options_.lifeline = LifelineTerms{"KEY", false, true, true};
  EXPECT_EQ(style().onto_terminal, (std::array{false, true}));
  EXPECT_TRUE(style().colours);
}

TEST_F(NodeOutputTest, ATerminalOfOpenMpiIsReadByIt) {
  EXPECT_FALSE(style().terminal_is_read);
  environment_["OMPI_COMM_WORLD_RANK"] = "0";
  EXPECT_TRUE(style().terminal_is_read);
}

TEST_F(NodeOutputTest, VerboseAddsDetails) {
  EXPECT_EQ(logged(), "dlaunch: a fact\ndlaunch: a problem\n");
  options_.verbose = true;
  EXPECT_EQ(logged(), "dlaunch: a detail\ndlaunch: a fact\ndlaunch: a problem\n");
}

TEST_F(NodeOutputTest, OfAgentsWithAStarterOnlyNodeZeroLogsFacts) {
  options_.lifeline = LifelineTerms{"KEY", false, false, false};
  EXPECT_EQ(logged(), "dlaunch: a fact\ndlaunch: a problem\n");
  plan_.node.node_rank = 1;
  EXPECT_EQ(logged(), "dlaunch: b: a problem\n");
}

TEST_F(NodeOutputTest, TheLogHasColoursOnlyOnTheStartersTerminal) {
  options_.lifeline = LifelineTerms{"KEY", false, true, true};
  EXPECT_EQ(logged(), "\033[36mdlaunch:\033[0m a fact\n\033[36mdlaunch:\033[0m a problem\n");
  options_.lifeline->colours = false;
  EXPECT_EQ(logged(), "dlaunch: a fact\ndlaunch: a problem\n");
}

}  // namespace
}  // namespace dlaunch::launcher
