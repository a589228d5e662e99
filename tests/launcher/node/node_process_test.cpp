// A whole job on this node, in a process of its own: from the plan to the exit code.
#include "launcher/node/node_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "launcher/remote/remote_protocol.h"
#include "tests/launcher/flags/parsed_options.h"
#include "tests/launcher/own_process.h"

namespace dlaunch::launcher {
namespace {

class NodeProcessTest : public testing::Test {
 protected:
  // Runs the job that `arguments` describe; every file of it is in folder_.
  test::OwnProcess run(const Words& arguments, int lifeline_input = -1) {
    const Options options = good(arguments);
    return test::in_own_process([&]() -> int {
      setenv("TMPDIR", folder_.path().c_str(), 1);
      setenv("AGENT", std::to_string(getpid()).c_str(), 1);
      auto plan = make_plan(options, MachineFacts{});
      std::array<char, 64> name{"node_process_test"};
      auto containment = Containment::begin(name.data(), name.size());
      if (!plan || !containment) return 99;
      plan->node.agent = 1;
      plan->node.scratch_dir = containment->scratch_dir();
      plan->node.pages_dir = containment->pages_dir();
      auto files = open_output_files(*plan, options);
      if (!files) return 98;
      NodeProcess node(std::move(*plan), std::move(*files),
                       {options, environment_, *containment, lifeline_input});
      if (auto opened = node.open_endpoints(); !opened) return unable(opened.error());
      node.make_runner();
      node.watch_signals();
      if (auto started = node.start(); !started) return unable(started.error());
      node.run();
      return node.finish();
    });
  }
  static int unable(const Error& error) {
    const std::string line = error.message() + "\n";
    return write(STDERR_FILENO, line.data(), line.size()) > 0 ? 97 : 96;
  }

  test::TemporaryFolder folder_;
  EnvironmentMap environment_;
};

std::string last_line(const std::string& text) {
  const std::size_t end = text.rfind('\n');
  const std::size_t before = end == 0 || end == std::string::npos ? end : text.rfind('\n', end - 1);
  return before == std::string::npos ? text : text.substr(before + 1);
}

TEST_F(NodeProcessTest, ASuccessPrintsTheWorkersLinesAndLeavesNothing) {
  const auto ran = run({"--nproc-per-node=2", "sh", "-c", "echo rank $RANK of $WORLD_SIZE"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_NE(ran.printed.find("rank 0 of 2\n"), std::string::npos) << ran.printed;
  EXPECT_NE(ran.printed.find("rank 1 of 2\n"), std::string::npos) << ran.printed;
  EXPECT_EQ(ran.printed.size(), 24U) << ran.printed;
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(NodeProcessTest, AFailureIsTheExitCodeTheLastLineAndTheReport) {
  test::TemporaryFolder kept;
  const std::string report = kept.path() + "/report.json";
  const auto ran = run({"--report=" + report, "sh", "-c", "echo ValueError: x >&2; exit 3"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_TRUE(last_line(ran.printed).starts_with("dlaunch: failed: rank 0 ")) << ran.printed;
  EXPECT_NE(last_line(ran.printed).find("exited with code 3"), std::string::npos) << ran.printed;
  EXPECT_NE(test::content_of(report).find("\"exit_code\": 3"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(NodeProcessTest, AProgramThatCannotBeStartedIsAFailure) {
  const auto ran = run({"./no-such-program"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(last_line(ran.printed).find("No such file or directory"), std::string::npos) << ran.printed;
}

TEST_F(NodeProcessTest, ASignalStopsTheJob) {
  const auto ran = run({"sh", "-c", "kill -TERM $AGENT; sleep 1000"});
  EXPECT_EQ(ran.code, 128 + SIGTERM);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(NodeProcessTest, AnEndpointThatCannotBeOpenedLeavesNothing) {
  environment_["TORCHELASTIC_HEALTH_CHECK_PORT"] = "none";
  const auto ran = run({"true"});
  EXPECT_EQ(ran.code, 97);
  EXPECT_NE(ran.printed.find("TORCHELASTIC_HEALTH_CHECK_PORT"), std::string::npos) << ran.printed;
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(NodeProcessTest, WhatTheLogShowsAtTheStartComesFirst) {
  const auto ran = run({"--tee=3", "--log-dir=" + folder_.path() + "/logs", "sh", "-c", "echo the worker"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_TRUE(ran.printed.starts_with("dlaunch: log files are in " + folder_.path() + "/logs/"))
      << ran.printed;
  EXPECT_TRUE(ran.printed.ends_with("the worker\n")) << ran.printed;
}

// The connection to the dlaunch that started this one is a pipe here, which has ended.
TEST_F(NodeProcessTest, AJobWhoseStarterIsLostEnds) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  close(ends[1]);
  const auto ran = run({"--lifeline=KEY", "sleep", "1000"}, ends[0]);
  close(ends[0]);
  EXPECT_EQ(ran.code, 128 + SIGHUP);
  AgentStream stream("KEY");
  std::vector<AgentMessage> messages;
  for (const StreamPart& part : stream.take(ran.printed)) {
    if (part.kind == StreamPart::Kind::message) messages.push_back(part.message);
  }
  ASSERT_FALSE(messages.empty()) << ran.printed;
  EXPECT_EQ(messages.front().kind, AgentMessage::Kind::ready);
  EXPECT_EQ(messages.back(), (AgentMessage{AgentMessage::Kind::end, std::to_string(128 + SIGHUP)}));
}

}  // namespace
}  // namespace dlaunch::launcher
