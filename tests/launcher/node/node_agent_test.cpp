// The part of a node's process that lives while the job does, in a process of its own, with real workers.
#include "launcher/node/node_agent.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>

#include "launcher/node/node_output.h"
#include "store/base/log.h"
#include "tests/launcher/flags/parsed_options.h"
#include "tests/launcher/own_process.h"

namespace dlaunch::launcher {
namespace {

class NodeAgentTest : public testing::Test {
 protected:
  // Runs the job; `at_end` gets the agent when its workers have ended.
  test::OwnProcess run(const Words& arguments, const std::function<int(NodeAgent&)>& at_end) const {
    const Options options = good(arguments);
    return test::in_own_process([&]() -> int {
      setenv("TMPDIR", folder_.path().c_str(), 1);
      auto plan = make_plan(options, MachineFacts{});
      std::array<char, 64> name{"node_agent_test"};
      auto containment = Containment::begin(name.data(), name.size());
      if (!plan || !containment) return 99;
      plan->node.agent = 1;
      auto files = open_output_files(*plan, options);
      if (!files) return 98;
      UvLoop loop;
      UvPoller poller(loop);
      agent::Output output(poller, output_style(*plan, options, "", environment_));
      agent::Postmortem postmortem("", "", nullptr);
      LogReporter reporter;
      log::start("t", log::Level::info, false, [&](std::string_view line) { output.write_own(line); });
      NodeAgent agent({options, environment_, *plan, *files, loop, poller, output, postmortem, reporter},
                      containment->take_keeper());
      int code = 97;
      if (auto opened = agent.open_endpoints(); !opened) {
        log::error(opened.error().message());
      } else {
        agent.make_runner();
        if (agent.start({}).ok()) {
          loop.run();
          code = at_end(agent);
        }
        agent.close();
      }
      agent::end_and_remove_all(agent.spawner().resources());
      log::stop();
      return code;
    });
  }
  static int exit_code(const NodeAgent& agent) { return agent.outcome() ? agent.outcome()->exit_code : 96; }

  test::TemporaryFolder folder_;
  EnvironmentMap environment_;
};

// What the worker requests at MASTER_PORT.
std::string get(const std::string& path) {
  return "exec 3<>/dev/tcp/127.0.0.1/$MASTER_PORT; printf 'GET " + path +
         " HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3";
}

TEST_F(NodeAgentTest, RunsTheJobAndKnowsItsWorld) {
  const auto ran = run({"--nproc-per-node=2", "sh", "-c", "exit $((RANK * 4))"}, [](NodeAgent& agent) {
    EXPECT_EQ(agent.world().world_size, 2);
    EXPECT_EQ(agent.open_port_notice(), "") << "it listens on loopback only";
    return testing::Test::HasFailure() ? 95 : exit_code(agent);
  });
  EXPECT_EQ(ran.code, 4) << ran.printed;
}

TEST_F(NodeAgentTest, ItsPortShowsTheJob) {
  const auto ran = run({"bash", "-c", get("/job")}, exit_code);
  EXPECT_EQ(ran.code, 0) << ran.printed;
  EXPECT_TRUE(ran.printed.starts_with("HTTP/1.1 200 OK\r\n")) << ran.printed;
  EXPECT_NE(ran.printed.find("application/json"), std::string::npos) << ran.printed;
  const auto metrics = run({"bash", "-c", get("/metrics")}, exit_code);
  EXPECT_NE(metrics.printed.find("\ndlaunch_"), std::string::npos) << metrics.printed;
}

TEST_F(NodeAgentTest, AHealthPortThatIsNoneStopsTheStart) {
  environment_["TORCHELASTIC_HEALTH_CHECK_PORT"] = "none";
  const auto ran = run({"true"}, exit_code);
  EXPECT_EQ(ran.code, 97);
  EXPECT_TRUE(ran.printed.starts_with("t: TORCHELASTIC_HEALTH_CHECK_PORT")) << ran.printed;
  environment_["TORCHELASTIC_HEALTH_CHECK_PORT"] = "";
  EXPECT_EQ(run({"true"}, exit_code).code, 0) << "an empty variable counts as none";
}

TEST_F(NodeAgentTest, EventsAreWrittenInTheFormatThatWasRequested) {
  const std::string events = folder_.path() + "/events";
  EXPECT_EQ(run({"--events=" + events, "true"}, exit_code).code, 0);
  const std::string own = test::content_of(events);
  EXPECT_NE(own.find("\"event\""), std::string::npos) << own;
  EXPECT_EQ(run({"--events=" + events, "--events-format=torchelastic", "true"}, exit_code).code, 0);
  const std::string both = test::content_of(events);
  ASSERT_TRUE(both.starts_with(own));
  EXPECT_NE(both.find("\"source\"", own.size()), std::string::npos) << both;
}

}  // namespace
}  // namespace dlaunch::launcher
