// A node that cannot start, and the job's coordinator: an agent with a store server on this machine's
// network.
#include "launcher/node/unfit_node.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>

#include "agent/node/runner.h"
#include "store/base/random.h"
#include "store/loop/uv_loop.h"
#include "store/server/server.h"

namespace dlaunch::launcher {
namespace {

using std::chrono::milliseconds;

const Error no_program{ErrorKind::not_found, "cannot start 'train.py'", "", "No such file or directory", ""};

struct NoWorkers final : agent::ProcessSpawner {
  void set_handler(agent::SpawnerHandler&) override {}
  void spawn(agent::ProcKey, const agent::Command&) override { ADD_FAILURE() << "no world can be formed"; }
  void signal_all(int) override {}
  void kill_all() override {}
  std::string give_up() override { return ""; }
  void keep_alive(TimePoint) override {}
};

struct NoReporter final : agent::Reporter {
  void report(const agent::LogMessage&) override {}
};

// Node 0 of two.
class HeadNode final : AgentAcceptor {
 public:
  explicit HeadNode(const std::string& secret) {
    ServerOptions options;
    options.agents = this;
    server_.emplace(loop_, loop_, loop_, std::move(options));
    const auto listening = server_->listen({"127.0.0.1", 0});
    EXPECT_TRUE(listening.ok());
    if (listening) plan.job.endpoints = {{"127.0.0.1", listening->port}};
    plan.job.id = "job";
    plan.job.nnodes = 2;
    plan.job.master = plan.job.endpoints.front();
    plan.job.join_timeout = std::chrono::seconds(60);
    plan.job.stop_timeout.usual = std::chrono::seconds(1);
    plan.node.host = "a";
    plan.node.agent = 1;
    agent::Runner::Config config{plan.job,
                                 plan.node,
                                 DLAUNCH_VERSION,
                                 {},
                                 0,
                                 [](std::uint32_t, const std::set<std::string>&) {},
                                 [this] { loop_.stop(); }};
    config.secret = secret;
    config.draw_nonce = [] { return random_bytes(agent::nonce_size); };
    runner_.emplace(agent::Runner::Dependencies{loop_, loop_, loop_, spawner_, reporter_}, std::move(config));
    runner_->begin();
  }
  // Until the job has ended.
  agent::Outcome run() {
    if (!runner_->outcome()) loop_.run();
    return *runner_->outcome();
  }

  JobPlan plan;

 private:
  ConnectionHandler& on_agent_connection(ConnId conn, const Address& peer) override {
    return runner_->on_agent_connection(conn, peer);
  }
  bool end_unauthenticated(TimePoint) override { return false; }

  UvLoop loop_;
  NoWorkers spawner_;
  NoReporter reporter_;
  std::optional<StoreServer> server_;
  std::optional<agent::Runner> runner_;
};

// The plan of node 1.
JobPlan second_node(const JobPlan& head) {
  JobPlan plan = head;
  plan.serves = JobPlan::Serves::no;
  plan.node.node_rank = 1;
  plan.node.host = "b";
  plan.node.agent = 2;
  return plan;
}

class UnfitNodeTest : public testing::TestWithParam<std::string> {};

TEST_P(UnfitNodeTest, TheJobEndsWithItsReason) {
  HeadNode head(GetParam());
  std::thread second([plan = second_node(head.plan), secret = GetParam()] {
    report_unfit_node(plan, secret, false, no_program);
  });
  const agent::Outcome outcome = head.run();
  second.join();
  EXPECT_TRUE(outcome.failed);
  EXPECT_EQ(outcome.cause.host, "b");
  EXPECT_NE(outcome.cause.why.find(no_program.message()), std::string::npos) << outcome.cause.why;
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutASecret, UnfitNodeTest, testing::Values("", "s3cret"));

TEST(UnfitNode, ACoordinatorThatCannotBeReachedIsGivenUp) {
  JobPlan plan;
  plan.job.nnodes = 2;
  plan.job.endpoints = {{"127.0.0.1", 1}};
  plan.job.master = plan.job.endpoints.front();
  plan.job.join_timeout = milliseconds(10);
  plan.node.node_rank = 1;
  plan.serves = JobPlan::Serves::no;
  report_unfit_node(plan, "", false, no_program);  // it returns
}

// A server that must not be asked.
struct Asked final : ListenerHandler, ConnectionHandler {
  ConnectionHandler& on_accepted(ConnId, const Address&) override {
    ADD_FAILURE() << "a node has connected";
    return *this;
  }
  void on_received(ConnId, ByteSpan) override {}
  void on_closed(ConnId, const ConnectionEnd&) override {}
};

struct Stop final : TimerHandler {
  explicit Stop(UvLoop& running) : loop(running) {}
  void on_timer(TimerId) override { loop.stop(); }
  UvLoop& loop;
};

TEST(UnfitNode, ANodeThatMayServeTheCoordinatorOrIsAloneReportsToNobody) {
  UvLoop loop;
  Asked asked;
  const auto listening = loop.listen({"127.0.0.1", 0}, asked);
  ASSERT_TRUE(listening.ok());
  JobPlan plan;
  plan.job.endpoints = {{"127.0.0.1", listening->port}};
  plan.job.master = plan.job.endpoints.front();
  plan.job.join_timeout = milliseconds(100);
  plan.job.nnodes = 2;
  for (const auto serves : {JobPlan::Serves::yes, JobPlan::Serves::if_ours, JobPlan::Serves::elected}) {
    plan.serves = serves;
    report_unfit_node(plan, "", false, no_program);
  }
  plan.serves = JobPlan::Serves::no;
  plan.job.nnodes = 1;
  report_unfit_node(plan, "", false, no_program);
  // A connection that had been made would be accepted now.
  Stop stop(loop);
  loop.arm(loop.now() + milliseconds(10), stop);
  loop.run();
}

}  // namespace
}  // namespace dlaunch::launcher
