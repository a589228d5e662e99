// One port for several protocols: which connections are dispatched, rejected and ended.

#include "store/server/protocol_mux.h"

#include <gtest/gtest.h>

#include "tests/store/server/server_fixture.h"

namespace dlaunch::store {
namespace {

using namespace std::chrono_literals;
using namespace test;

TEST_F(ServerTest, TorchrunAgentIsRejectedBeforeWorkersRun) {
  AgentConnections agents;
  ServerOptions options;
  options.agents = &agents;
  make(options);
  const Request c10d = request(RequestKind::get, "/torch.rendezvous.none");
  const Request fixed = request(RequestKind::set, "/none/torchelastic/role_info/1", "{}");
  const Request older = request(RequestKind::set, "/none/torchelastic/role_info1", "{}");  // 1.13's
  for (const Request& one :
       {c10d, fixed, older, listing(RequestKind::wait, {"/a", "/torch.rendezvous.none"})}) {
    const ConnId conn = client();
    ask(conn, one);
    EXPECT_TRUE(network.closed(conn));
  }
  ASSERT_FALSE(reports.empty());
  EXPECT_NE(reports[0].find("torchrun cannot join a dlaunch job"), std::string::npos) << reports[0];
  const ConnId other = client();
  ask(other, request(RequestKind::set, "/k", "v"));
  EXPECT_FALSE(network.closed(other));
  server->new_round();
  const ConnId nested = client();
  ask(nested, c10d);
  EXPECT_FALSE(network.closed(nested)) << "the workers' own affair";
  reports.clear();
  const ConnId late = network.arrive({"10.0.0.77", 40000});
  network.give(late, greeting);
  ask(late, compare("/torch.rendezvous.none", "", "state"));
  EXPECT_TRUE(network.closed(late)) << "a torchrun would make a world of its own in the workers' store";
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_NE(reports[0].find("torchrun cannot join a dlaunch job"), std::string::npos);
  server.reset();  // it must not outlive its acceptor
}

TEST_F(ServerTest, AStoreByItselfIsTorchrunsToUse) {
  const ConnId conn = client();
  ask(conn, request(RequestKind::set, "/torch.rendezvous.none", "v"));
  EXPECT_FALSE(network.closed(conn));
}

TEST_F(ServerTest, SilentConnectionsEndButThoseOf113Clients) {
  const ConnId client = network.arrive({"10.0.0.7", 1});
  const ConnId silent = network.arrive({"10.0.0.8", 1});  // 1.13's second connection
  const ConnId old_one = network.arrive({"10.0.0.8", 2});
  ask(old_one, request(RequestKind::set, "/k", "v"), Dialect::v1_13);
  const ConnId second_client = network.arrive({"10.0.0.8", 3});
  EXPECT_EQ(server->stats().undecided, 3U);
  network.pass(4min);
  EXPECT_FALSE(network.closed(client));
  for (int i = 0; i < 24 * 60; ++i) network.pass(1min);
  EXPECT_TRUE(network.closed(client));
  EXPECT_TRUE(network.closed(second_client));
  EXPECT_FALSE(network.closed(silent));
  EXPECT_FALSE(network.closed(old_one)) << "whoever has spoken may be silent for days";
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0], "rejected 10.0.0.7:1: it has not identified itself in time");
  network.leave(silent);
  EXPECT_EQ(server->stats().undecided, 0U);
  EXPECT_EQ(network.timers(), 0U);
}

TEST_F(ServerTest, AnHttpRequestThatDoesNotEndIsEnded) {
  const ConnId slow = network.arrive();
  network.give(slow, "GET /heal");
  for (int i = 0; i < 2; ++i) network.pass(30s);
  EXPECT_TRUE(network.closed(slow));
}

TEST_F(ServerTest, LogsARejectionOncePerHostAndReason) {
  for (int i = 0; i < 5; ++i) network.give(network.arrive({"10.0.0.9", 1}), "\xff");
  EXPECT_EQ(reports.size(), 1U);
  network.give(network.arrive({"10.0.0.8", 1}), "\xff");
  EXPECT_EQ(reports.size(), 2U);
  for (int i = 0; i < 1000; ++i) network.give(network.arrive({"host" + std::to_string(i), 1}), "\xff");
  EXPECT_LE(reports.size(), 300U);
}

TEST_F(ServerTest, AgentsAreDispatchedToTheirAcceptor) {
  AgentConnections agents;
  ServerOptions options;
  options.agents = &agents;
  make(options);
  const ConnId agent = network.arrive({"10.0.0.2", 5});
  network.give(agent, "\xd1hello");
  EXPECT_EQ(agents.last, agent);
  EXPECT_EQ(agents.from, (Address{"10.0.0.2", 5}));
  network.give(agent, " again");
  EXPECT_EQ(agents.said, "\xd1hello again");
  server->new_round();
  EXPECT_FALSE(network.closed(agent));
  network.leave(agent);
  EXPECT_TRUE(agents.left);
}

TEST_F(ServerTest, AgentFromAnEarlierRoundIsAccepted) {
  AgentConnections agents;
  ServerOptions options;
  options.agents = &agents;
  make(options);
  const ConnId agent = network.arrive();
  server->new_round();
  network.give(agent, "\xd1");
  EXPECT_EQ(agents.said, "\xd1");
}

TEST_F(ServerTest, BlockedHostIsRejectedAndItsAgentIsNot) {
  AgentConnections agents;
  ServerOptions options;
  options.agents = &agents;
  options.report = [this](const std::string& sentence) { reports.push_back(sentence); };
  make(options);
  server->new_round({"10.0.0.2"});
  const ConnId late = network.arrive({"10.0.0.2", 6});
  network.give(late, encoded(request(RequestKind::set, "/k", "old")));
  EXPECT_TRUE(network.closed(late));
  EXPECT_EQ(reports,
            std::vector<std::string>{"rejected 10.0.0.2:6: its node was lost; its workers belong to an "
                                     "earlier round"});
  const ConnId agent = network.arrive({"10.0.0.2", 7});
  network.give(agent, "\xd1hello");
  EXPECT_EQ(agents.last, agent);
  const ConnId other = network.arrive({"10.0.0.3", 6});
  network.give(other, encoded(request(RequestKind::set, "/k", "new")));
  EXPECT_FALSE(network.closed(other));
  server->new_round();
  const ConnId back = network.arrive({"10.0.0.2", 8});
  network.give(back, encoded(request(RequestKind::set, "/k", "new")));
  EXPECT_FALSE(network.closed(back));
}

TEST_F(ServerTest, WithoutAnAcceptorAgentsAreRejected) {
  const ConnId agent = network.arrive();
  network.give(agent, "\xd1");
  EXPECT_TRUE(network.closed(agent));
  ASSERT_EQ(reports.size(), 1U);
}

TEST_F(ServerTest, OtherFirstBytesAreRejected) {
  for (const char first : {'\x13', '\x16', ' ', '\x7f', '\xff'}) {
    const ConnId client = network.arrive();
    network.give(client, std::string(1, first));
    EXPECT_TRUE(network.closed(client)) << int(first);
  }
  EXPECT_EQ(server->stats().undecided, 0U);
}

TEST_F(ServerTest, AnswersHttp) {
  const auto get = [&](std::string_view head, std::size_t piece) {
    const ConnId conn = network.arrive();
    for (std::size_t at = 0; at < head.size(); at += piece) network.give(conn, head.substr(at, piece));
    EXPECT_TRUE(network.closed(conn));
    return network.take(conn);
  };
  EXPECT_EQ(get("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 1),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n"
            "Connection: close\r\n\r\nok\n");
  EXPECT_TRUE(get("GET / HTTP/1.0\n\n", 100).starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(get("POST /healthz HTTP/1.1\r\n\r\n", 100).starts_with("HTTP/1.1 405 "));
  EXPECT_TRUE(get("nonsense\r\n\r\n", 100).starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(get("GET /" + std::string(9'000, 'x'), 1'000).starts_with("HTTP/1.1 431 "));
  EXPECT_TRUE(get("GET /" + std::string(90'000, 'x'), 90'000).starts_with("HTTP/1.1 431 "));
}

TEST_F(ServerTest, HttpIsDispatchedToItsHandler) {
  struct Pages final : HttpHandler {
    HttpAnswer on_http_get(std::string_view path) override { return {200, "text/html", std::string(path)}; }
  } pages;
  ServerOptions options;
  options.https = &pages;
  make(options);
  const ConnId conn = network.arrive();
  network.give(conn, "GET /status?x HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(network.take(conn).ends_with("\r\n\r\n/status?x"));
}

}  // namespace
}  // namespace dlaunch::store
