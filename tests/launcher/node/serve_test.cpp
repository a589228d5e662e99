// The endpoint that a node serves, on this machine's network; health checks on one without wires.
#include "launcher/node/serve.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "store/loop/uv_loop.h"
#include "tests/store/server/fake_network.h"

namespace dlaunch::launcher {
namespace {

using Serves = JobPlan::Serves;

// An address of no machine (RFC 5737).
const std::string foreign = "203.0.113.1";

class ServeTest : public testing::Test {
 protected:
  ServeTest() {
    plan_.serves = Serves::yes;
    plan_.host_from = "--master-addr";
    plan_.port_from = "--master-port";
  }
  void endpoints(std::vector<Address> all) {
    plan_.job.endpoints = std::move(all);
    plan_.job.master = plan_.job.endpoints.front();
  }
  // A port at which another server listens.
  std::uint16_t taken_port() {
    const auto listening = other_.listen({"127.0.0.1", 0});
    EXPECT_TRUE(listening.ok());
    return listening ? listening->port : 0;
  }
  std::string failure() {
    const auto served = serve_endpoint(server_, plan_);
    EXPECT_FALSE(served.ok());
    return served ? "" : served.error().message();
  }

  UvLoop loop_;
  StoreServer server_{loop_, loop_, loop_, {}};
  StoreServer other_{loop_, loop_, loop_, {}};
  JobPlan plan_;
};

TEST_F(ServeTest, ANodeThatDoesNotServeOpensNothing) {
  plan_.serves = Serves::no;
  endpoints({{"127.0.0.1", 0}});
  const auto served = serve_endpoint(server_, plan_);
  ASSERT_TRUE(served.ok());
  EXPECT_FALSE(served->endpoint);
  EXPECT_EQ(plan_.job.endpoints[0].port, 0);
}

TEST_F(ServeTest, AnOpenPortIsFilledIn) {
  endpoints({{"127.0.0.1", 0}});
  const auto served = serve_endpoint(server_, plan_);
  ASSERT_TRUE(served.ok());
  EXPECT_EQ(served->endpoint, 0U);
  EXPECT_FALSE(served->is_reachable) << "it is a loopback address";
  EXPECT_NE(plan_.job.endpoints[0].port, 0);
  EXPECT_EQ(plan_.job.master, plan_.job.endpoints[0]);
}

TEST_F(ServeTest, LoopbackThatTheUserNamedStaysLoopback) {
  plan_.job.nnodes = 2;
  endpoints({{"localhost", 0}});
  const auto served = serve_endpoint(server_, plan_);
  ASSERT_TRUE(served.ok());
  EXPECT_FALSE(served->is_reachable);
}

TEST_F(ServeTest, APortInUseNamesItsOwnerAndTheRemedy) {
  endpoints({{"127.0.0.1", taken_port()}});
  const std::string message = failure();
  EXPECT_NE(message.find(std::to_string(getpid())), std::string::npos) << message;
  EXPECT_TRUE(message.ends_with("; choose a free port with --master-port")) << message;
}

TEST_F(ServeTest, ANodeWhosePortAnotherDlaunchHasMayBeStartedWithTheWrongRank) {
  plan_.job.nnodes = 2;
  plan_.node.node_rank = 0;
  endpoints({{"127.0.0.1", taken_port()}});
  char before[16] = {};
  ASSERT_EQ(prctl(PR_GET_NAME, before), 0);
  ASSERT_EQ(prctl(PR_SET_NAME, "dlaunch"), 0);
  const std::string by_hosts = failure();
  plan_.rank_from = "--node-rank";
  const std::string by_user = failure();
  ASSERT_EQ(prctl(PR_SET_NAME, before), 0);
  const std::string choose = "choose a free port with --master-port";
  EXPECT_TRUE(by_hosts.ends_with("(dlaunch); " + choose)) << by_hosts;
  EXPECT_TRUE(by_user.ends_with(
      "; if that is node 0 of this job, start this node with another --node-rank than 0; else " + choose))
      << by_user;
}

// Another agent of this job, on this machine, has it.
TEST_F(ServeTest, APortInUseIsNoErrorForANodeThatNeedNotServe) {
  plan_.serves = Serves::if_ours;
  plan_.job.nnodes = 2;
  endpoints({{"127.0.0.1", taken_port()}});
  const auto served = serve_endpoint(server_, plan_);
  ASSERT_TRUE(served.ok());
  EXPECT_FALSE(served->endpoint);
}

TEST_F(ServeTest, TheFirstEndpointOfThisMachineIsServed) {
  plan_.serves = Serves::if_ours;
  plan_.job.nnodes = 3;
  endpoints({{foreign, 29400}, {"127.0.0.1", taken_port()}, {"127.0.0.1", 0}});
  const auto served = serve_endpoint(server_, plan_);
  ASSERT_TRUE(served.ok());
  EXPECT_EQ(served->endpoint, 2U);
  EXPECT_NE(plan_.job.endpoints[2].port, 0);
  EXPECT_EQ(plan_.job.master, (Address{foreign, 29400})) << "the first, wherever the job is served";
}

TEST_F(ServeTest, AnAddressOfAnotherMachineCannotBeServedHere) {
  endpoints({{foreign, 0}});
  const std::string message = failure();
  EXPECT_TRUE(message.ends_with("; --master-addr must name an address of this machine")) << message;
}

// A service's address, or one behind NAT.
TEST_F(ServeTest, TheOnlyEndpointOfSeveralNodesIsServedEverywhere) {
  plan_.job.nnodes = 2;
  endpoints({{foreign, 0}});
  const auto served = serve_endpoint(server_, plan_);
  ASSERT_TRUE(served.ok());
  EXPECT_EQ(served->endpoint, 0U);
  EXPECT_EQ(plan_.job.endpoints[0].host, foreign) << "the others know it by this address";
  EXPECT_NE(plan_.job.endpoints[0].port, 0);
}

// Before DNS has its name, or while DNS has the address of the pod that was there before.
TEST_F(ServeTest, APodServesUnderItsOwnNameWhateverDnsSays) {
  plan_.serves = Serves::if_ours;
  plan_.job.nnodes = 3;
  endpoints({{"train-0.no-such-name.invalid", 0}, {"train-1.no-such-name.invalid", 0}});
  const auto elsewhere = serve_endpoint(server_, plan_);
  ASSERT_TRUE(elsewhere.ok());
  EXPECT_FALSE(elsewhere->endpoint);
  plan_.pod = "train-1.no-such-name.invalid.svc.cluster.local";
  const auto served = serve_endpoint(server_, plan_);
  ASSERT_TRUE(served.ok());
  EXPECT_EQ(served->endpoint, 1U);
  EXPECT_TRUE(served->is_reachable);
}

TEST_F(ServeTest, TheElectedServeTowardsTheElection) {
  plan_.serves = Serves::elected;
  plan_.job.elected = true;
  endpoints({{"127.0.0.1", 2379}});  // etcd
  const auto served = serve_endpoint(server_, plan_);
  ASSERT_TRUE(served.ok());
  EXPECT_EQ(served->endpoint, 0U);
  EXPECT_EQ(plan_.own.host, "127.0.0.1");
  EXPECT_NE(plan_.own.port, 0);
  EXPECT_EQ(plan_.job.endpoints[0].port, 2379) << "it is etcd's";
}

TEST_F(ServeTest, TheElectedServeAtTheAddressThatTheUserNamed) {
  plan_.serves = Serves::elected;
  endpoints({{"127.0.0.1", 2379}});
  plan_.own = {foreign, 0};
  ASSERT_TRUE(serve_endpoint(server_, plan_).ok()) << "on all interfaces";
  EXPECT_EQ(plan_.own.host, foreign);
  plan_.own = {"127.0.0.1", taken_port()};
  EXPECT_TRUE(failure().ends_with("; choose a free port with --master-port"));
}

TEST(HttpRulesOfAPlan, NameEveryNameOfThisNodeInLowerCase) {
  JobPlan plan;
  plan.job.endpoints = {{"Head.Cluster", 29400}, {"other", 29400}};
  plan.own.host = "10.0.0.1";
  plan.node.host = "Node1";
  const HttpRules rules = http_rules_of(plan, "s3cret");
  EXPECT_EQ(rules.names, (decltype(rules.names){"10.0.0.1", "head.cluster", "node1", "other"}));
  EXPECT_EQ(rules.secret, "s3cret");
  plan.own.host.clear();
  EXPECT_FALSE(http_rules_of(plan, "").names.contains(""));
}

TEST(OpenPortNotice, IsForPortsThatOthersReachWithoutASecret) {
  JobPlan plan;
  plan.job.endpoints = {{"a", 1}, {"b", 2}};
  plan.job.nnodes = 2;
  const Served served{1, true};
  const std::string notice = open_port_notice(served, plan, "");
  EXPECT_EQ(notice,
            "no secret: everybody who can connect to b:2 can read and change this job's store and join the "
            "job; set a secret with --token-file=FILE on every node");
  EXPECT_EQ(open_port_notice(served, plan, "s3cret"), "");
  EXPECT_EQ(open_port_notice({1, false}, plan, ""), "");
  plan.job.nnodes = 1;
  EXPECT_EQ(open_port_notice(served, plan, "").find("join the job"), std::string::npos);
  plan.serves = JobPlan::Serves::elected;
  plan.own = {"c", 3};
  EXPECT_NE(open_port_notice({0, true}, plan, "").find("connect to c:3 can"), std::string::npos);
}

class HealthEndpointTest : public testing::Test {
 protected:
  std::string answer_to(const std::string& request) {
    const ConnId conn = network_.arrive({"10.0.0.2", 40000});
    network_.give(conn, request);
    const std::string answer = network_.take(conn);
    return answer.substr(0, answer.find("\r\n"));
  }

  test::FakeNetwork network_;
  HealthEndpoint health_{network_, network_, network_, nullptr};
};

TEST_F(HealthEndpointTest, AnswersHealthChecksAndNothingElse) {
  ASSERT_TRUE(health_.open("TORCHELASTIC_HEALTH_CHECK_PORT", "8080").ok());
  EXPECT_EQ(answer_to("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 200 OK");
  EXPECT_TRUE(answer_to("GET / HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 404"));
  EXPECT_EQ(answer_to("\x02"
                      "a store client"),
            "");
  EXPECT_EQ(network_.open(), 0U);
}

TEST_F(HealthEndpointTest, AWrongPortNamesItsSource) {
  for (const char* text : {"0", "65536", "-1", "http", ""}) {
    const auto opened = health_.open("TORCHELASTIC_HEALTH_CHECK_PORT", text);
    ASSERT_FALSE(opened.ok()) << text;
    EXPECT_NE(opened.error().message().find("TORCHELASTIC_HEALTH_CHECK_PORT"), std::string::npos);
  }
}

TEST(HealthEndpoint, APortInUseIsAnError) {
  UvLoop loop;
  StoreServer other(loop, loop, loop, {});
  const auto listening = other.listen({"*", 0});
  ASSERT_TRUE(listening.ok());
  HealthEndpoint health(loop, loop, loop, nullptr);
  const auto opened = health.open("PORT", std::to_string(listening->port));
  ASSERT_FALSE(opened.ok());
  EXPECT_TRUE(opened.error().message().ends_with("; choose a free port with PORT"));
}

}  // namespace
}  // namespace dlaunch::launcher
