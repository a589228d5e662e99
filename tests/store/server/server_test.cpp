// The server as its peers see it, over a network without wires: which connections it accepts, answers and
// ends.
#include "store/server/server.h"

#include <gtest/gtest.h>

#include "tests/store/server/fake_network.h"
#include "tests/store/server/requests.h"

namespace dlaunch::store {
namespace {

using namespace std::chrono_literals;
using namespace test;

struct AgentConnections final : AgentAcceptor, ConnectionHandler {
  ConnectionHandler& on_agent_connection(ConnId conn, const Address& peer) override {
    last = conn;
    from = peer;
    return *this;
  }
  void on_received(ConnId, ByteSpan bytes) override { said += as_text(bytes); }
  void on_closed(ConnId, const ConnectionEnd&) override { left = true; }
  bool end_unauthenticated(TimePoint came_before) override {
    return unauthenticated && unauthenticated(came_before);
  }

  std::function<bool(TimePoint)> unauthenticated;
  ConnId last;
  Address from;
  std::string said;
  bool left = false;
};

class ServerTest : public testing::Test {
 protected:
  ServerTest() { make({}); }

  void make(ServerOptions options) {
    server.reset();
    options.report = [this](const std::string& sentence) { reports.push_back(sentence); };
    server.emplace(network, network, network, std::move(options));
    ASSERT_TRUE(server->listen({"127.0.0.1", 29500}));
  }
  ConnId client() {
    const ConnId conn = network.arrive();
    network.give(conn, greeting);
    return conn;
  }
  std::string ask(ConnId conn, const Request& request, Dialect dialect = Dialect::v2_2) {
    network.give(conn, encoded(request, dialect));
    return network.take(conn);
  }

  FakeNetwork network;
  std::vector<std::string> reports;
  std::optional<StoreServer> server;
};

TEST_F(ServerTest, AnswersARequestWithOneAnswer) {
  const ConnId a = client();
  EXPECT_EQ(ask(a, request(RequestKind::set, "/k", "v")), "");
  EXPECT_EQ(ask(a, request(RequestKind::get, "/k")), text("v"));
}

TEST_F(ServerTest, AnswersPipelinedRequestsInOrder) {
  const ConnId a = client();
  network.give(a, encoded(request(RequestKind::set, "/p", "1")) +
                      encoded(numbered(RequestKind::add, "/p", 2)) + encoded(request(RequestKind::num_keys)));
  EXPECT_EQ(network.take(a), i64(3) + i64(1));
}

TEST_F(ServerTest, ServesAllGenerationsFromOneTable) {
  const ConnId newest = client();
  const ConnId older = network.arrive();
  const ConnId oldest = network.arrive();
  ask(newest, request(RequestKind::set, "/k", "v"));
  EXPECT_EQ(ask(older, request(RequestKind::get, "/k"), Dialect::v2_1), text("v"));
  EXPECT_EQ(ask(oldest, listing(RequestKind::wait, {"/late"}), Dialect::v1_13), "");
  EXPECT_EQ(ask(older, listing(RequestKind::multi_set, {"/late"}, {"1"}), Dialect::v2_1), "");
  EXPECT_EQ(network.take(oldest), byte(answer_stop_waiting));
}

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

TEST_F(ServerTest, DeletesFor113AfterAMomentOfSilence) {
  const ConnId old_one = network.arrive();
  ask(old_one, request(RequestKind::set, "/k", "v"), Dialect::v1_13);
  EXPECT_EQ(ask(old_one, request(RequestKind::delete_key, "/k"), Dialect::v1_13), "");
  network.pass(1s);
  EXPECT_EQ(network.take(old_one), i64(1));
  EXPECT_EQ(ask(old_one, request(RequestKind::delete_key, "/k"), Dialect::v1_13), i64(0));  // now it is known
}

TEST_F(ServerTest, AppendsFor21WhenMoreFollows) {
  const ConnId old_one = network.arrive();
  const std::string bytes = encoded(request(RequestKind::append, "/k", "v"), Dialect::v2_1);
  const std::size_t others = network.timers();
  network.give(old_one, bytes.substr(0, 1 + 8 + 2));
  EXPECT_EQ(network.timers(), others + 1);
  network.give(old_one, bytes.substr(1 + 8 + 2));
  EXPECT_EQ(network.timers(), others);
  network.pass(1s);
  EXPECT_EQ(ask(old_one, request(RequestKind::get, "/k"), Dialect::v2_1), text("v"));
}

TEST_F(ServerTest, NotesFor113sWatchers) {
  ServerOptions options;
  options.old_clients = OldClients::v1_13;
  make(options);
  const ConnId watcher = network.arrive();
  EXPECT_EQ(ask(watcher, request(RequestKind::watch_key, "/k"), Dialect::v1_13), byte(answer_watching));
  const ConnId a = client();
  ask(a, request(RequestKind::set, "/k", "v"));
  EXPECT_EQ(network.take(watcher), byte(1) + text("/k") + text("") + text("v"));

  network.stop_reading(watcher);
  const std::string large(48 << 20, 'x');
  ask(a, request(RequestKind::set, "/k", large));
  EXPECT_FALSE(network.closed(watcher));
  ask(a, request(RequestKind::set, "/k", large));
  EXPECT_TRUE(network.closed(watcher));
  ask(a, request(RequestKind::set, "/k", "v"));
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

// Hundreds of unauthenticated connections may come; members, probers and clients find a descriptor.
class FewDescriptorsTest : public ServerTest {
 protected:
  static constexpr std::size_t limit = 100;
  FewDescriptorsTest() { few({}); }
  ~FewDescriptorsTest() override { server.reset(); }

  void few(PortLimits limits) {
    ServerOptions options;
    options.agents = &agents;
    options.port = limits;
    options.port.free_descriptors = [this] { return limit - std::min(limit, network.open()); };
    make(options);
  }
  void be_well(const Address& from) {
    const ConnId probe = network.arrive(from);
    network.give(probe, "GET /healthz HTTP/1.1\r\n\r\n");
    EXPECT_TRUE(network.take(probe).starts_with("HTTP/1.1 200 "));
    const ConnId agent = network.arrive(from);
    network.give(agent, "\xd1hello");
    EXPECT_EQ(agents.last, agent);
    network.leave(agent);
  }
  AgentConnections agents;
};

TEST_F(FewDescriptorsTest, SilentOnesLeaveRoom) {
  std::vector<ConnId> silent;
  for (int i = 0; i < 300; ++i) {
    silent.push_back(network.arrive({"10.0.0.7", 1}));
    ASSERT_LE(network.open(), limit - 8);
  }
  EXPECT_TRUE(network.closed(silent.front())) << "the oldest end first";
  EXPECT_FALSE(network.closed(silent.back()));
  be_well({"10.0.0.8", 1});
  be_well({"10.0.0.7", 1});
  const ConnId a = client();
  EXPECT_EQ(ask(a, numbered(RequestKind::add, "/n", 1)), i64(1));
  network.pass(10s);
  network.arrive({"10.0.0.9", 1});
  EXPECT_LE(network.open(), limit - 16) << "the old ones leave the whole reserve";
  EXPECT_FALSE(network.closed(a));
}

TEST_F(FewDescriptorsTest, TheAddressWithTheMostSilentOnesLosesThem) {
  const ConnId other = network.arrive({"10.0.0.8", 1});
  for (int i = 0; i < 300; ++i) network.arrive({"10.0.0.7", 1});
  EXPECT_FALSE(network.closed(other));
}

TEST_F(FewDescriptorsTest, ClientsOfOneAddressLeaveRoomForOthers) {
  std::size_t served = 0;
  for (int i = 0; i < 300; ++i) {
    const ConnId conn = network.arrive({"10.0.0.7", 1});
    network.give(conn, greeting + encoded(numbered(RequestKind::add, "/n", 0)));
    served += network.take(conn).empty() ? 0U : 1U;
  }
  EXPECT_EQ(served, 60U) << "three quarters of what the reserve leaves";
  EXPECT_EQ(reports.back(),
            "rejected 10.0.0.7:1: the store has as many clients from its address as descriptors allow");
  be_well({"10.0.0.7", 1});
  const ConnId other = network.arrive({"10.0.0.8", 1});
  network.give(other, greeting + encoded(numbered(RequestKind::add, "/n", 0)));
  EXPECT_EQ(network.take(other), i64(0));
}

// A byte is not a request.
TEST_F(FewDescriptorsTest, ConnectionsWithoutACompleteRequestMakeRoomForClients) {
  std::vector<ConnId> halves;
  for (int i = 0; i < 300; ++i) {
    halves.push_back(network.arrive({"10.0.0.9", 1}));
    network.give(halves.back(), std::string(1, '\0'));
    ASSERT_LE(network.open(), limit - 8);
  }
  const ConnId a = client();
  EXPECT_EQ(ask(a, numbered(RequestKind::add, "/n", 1)), i64(1));
  for (int i = 0; i < 11; ++i) network.pass(30s);
  for (const ConnId half : halves) EXPECT_TRUE(network.closed(half));
  EXPECT_FALSE(network.closed(a));
}

TEST_F(FewDescriptorsTest, ClientsOfAllAddressesLeaveTheReserve) {
  for (int i = 0; i < 300; ++i) {
    const ConnId conn = network.arrive({"10.0.0." + std::to_string(i % 10), 1});
    network.give(conn, greeting + encoded(numbered(RequestKind::add, "/n", 0)));
    ASSERT_LE(network.open(), limit - 8);
  }
  EXPECT_GT(server->stats().connections, 80U);
  be_well({"10.0.0.9", 1});
}

TEST_F(FewDescriptorsTest, ABurstOfRanksIsNotDisturbedWhileDescriptorsLast) {
  PortLimits limits;
  limits.unidentified_of_host = 10;
  few(limits);
  std::vector<ConnId> ranks;
  for (int i = 0; i < 60; ++i) ranks.push_back(network.arrive());
  for (const ConnId rank : ranks) network.give(rank, greeting);
  EXPECT_EQ(server->stats().connections, 60U);
  for (int i = 0; i < 20; ++i) network.arrive({"10.0.0.7", 1});
  EXPECT_EQ(server->stats().undecided, 20U);
  network.pass(3s);
  for (int i = 0; i < 10; ++i) network.arrive({"10.0.0.7", 1});
  EXPECT_EQ(server->stats().undecided, 20U) << "for each that comes an old one ends";
}

TEST_F(FewDescriptorsTest, UnauthenticatedAgentsEndLast) {
  std::vector<ConnId> conns;
  agents.unauthenticated = [&](TimePoint) {
    const auto oldest =
        std::find_if(conns.begin(), conns.end(), [&](ConnId c) { return !network.closed(c); });
    if (oldest == conns.end()) return false;
    network.close(*oldest);
    return true;
  };
  for (int i = 0; i < 300; ++i) {
    conns.push_back(network.arrive({"10.0.0.7", 1}));
    network.give(conns.back(), "\xd1");
    ASSERT_LE(network.open(), limit - 7);
  }
  be_well({"10.0.0.7", 1});
}

TEST_F(ServerTest, ClosingIsItsOnlyRefusal) {
  const ConnId a = client();
  ask(a, request(RequestKind::set, "/k", "text"));
  EXPECT_EQ(ask(a, numbered(RequestKind::add, "/k", 1)), "");
  EXPECT_TRUE(network.closed(a));
  EXPECT_EQ(server->stats().connections, 0U);
  EXPECT_EQ(server->stats().rejected, 1U);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0], "rejected 10.0.0.9:40000: ADD or BARRIER on a value that is not a number");

  const ConnId b = client();
  network.give(b, "\x63");
  EXPECT_TRUE(network.closed(b));
  const ConnId c = client();
  network.give(c, greeting);  // a second time
  EXPECT_TRUE(network.closed(c));
}

TEST_F(ServerTest, AnswersWhatCameBeforeTheMistake) {
  const ConnId a = client();
  network.give(a, encoded(request(RequestKind::num_keys)) + "\x63" + encoded(request(RequestKind::num_keys)));
  EXPECT_EQ(network.take(a), i64(0));
  EXPECT_TRUE(network.closed(a));
}

TEST_F(ServerTest, LogsARejectionOncePerHostAndReason) {
  for (int i = 0; i < 5; ++i) network.give(network.arrive({"10.0.0.9", 1}), "\xff");
  EXPECT_EQ(reports.size(), 1U);
  network.give(network.arrive({"10.0.0.8", 1}), "\xff");
  EXPECT_EQ(reports.size(), 2U);
  for (int i = 0; i < 1000; ++i) network.give(network.arrive({"host" + std::to_string(i), 1}), "\xff");
  EXPECT_LE(reports.size(), 300U);
}

TEST_F(ServerTest, ClosedConnectionIsForgotten) {
  const ConnId a = client();
  const ConnId b = client();
  ask(a, listing(RequestKind::wait, {"/k"}));
  EXPECT_EQ(server->stats().waiting, 1U);
  network.leave(a);
  EXPECT_EQ(server->stats().waiting, 0U);
  EXPECT_EQ(server->stats().connections, 1U);
  ask(b, request(RequestKind::set, "/k", "v"));
  EXPECT_EQ(network.take(a), "");
}

TEST_F(ServerTest, AQueuesValueGoesToTheNextWhenTheFirstLeaves) {
  const ConnId a = client();
  const ConnId b = client();
  const ConnId c = client();
  ask(a, listing(RequestKind::wait, {"/q"}));
  ask(b, listing(RequestKind::wait, {"/q"}));
  ask(c, request(RequestKind::queue_push, "/q", "v"));
  network.leave(a);
  EXPECT_EQ(network.take(b), byte(answer_stop_waiting));
}

// A peer that sends requests and does not read waits until it reads; the others are served.
TEST_F(ServerTest, SlowReadersWait) {
  const ConnId a = client();
  const ConnId b = client();
  ask(b, request(RequestKind::set, "/k", std::string(Network::high_water, 'x')));
  network.stop_reading(a);
  const std::string get = encoded(request(RequestKind::get, "/k"));
  network.give(a, get + get + get);
  EXPECT_TRUE(network.paused(a));
  EXPECT_EQ(network.take(a).size(), Network::high_water + 8);
  EXPECT_EQ(ask(b, request(RequestKind::num_keys)), i64(1));

  network.read_again(a);
  EXPECT_FALSE(network.paused(a));
  EXPECT_EQ(network.take(a).size(), 2 * (Network::high_water + 8));
}

// Unread answers.

TEST_F(ServerTest, AnswersShareTheStoredValue) {
  constexpr std::size_t size = 16 << 20;
  ask(client(), request(RequestKind::set, "/k", std::string(size, 'x')));
  for (int i = 0; i < 64; ++i) {
    const ConnId reader = client();
    network.stop_reading(reader);
    EXPECT_EQ(ask(reader, request(RequestKind::get, "/k")).size(), size + 8);
  }
  EXPECT_LT(server->stats().bytes, size + (1 << 20));
}

TEST_F(ServerTest, TheConnectionWithTheMostUnreadMakesRoom) {
  ServerOptions options;
  options.limits.total_bytes = 1'000'000;
  make(options);
  const ConnId a = client();
  for (char c = 'a'; c < 'f'; ++c) ask(a, request(RequestKind::set, std::string(40'000, c), "v"));
  const std::size_t stored = server->stats().bytes;

  const ConnId much = network.arrive({"10.0.0.7", 1});
  const ConnId less = network.arrive({"10.0.0.8", 1});
  const ConnId little = network.arrive({"10.0.0.9", 1});
  for (const ConnId conn : {much, less, little}) {
    network.stop_reading(conn);
    network.give(conn, greeting);
  }
  ask(little, request(RequestKind::num_keys));
  ask(less, request(RequestKind::list_keys));
  ask(much, request(RequestKind::list_keys));
  ask(much, request(RequestKind::list_keys));
  EXPECT_GE(server->stats().unread_bytes, 600'000U);
  EXPECT_EQ(server->stats().bytes, stored + server->stats().unread_bytes);
  EXPECT_TRUE(reports.empty());

  ask(less, request(RequestKind::list_keys));
  EXPECT_TRUE(network.closed(much));
  EXPECT_FALSE(network.closed(less));
  EXPECT_EQ(reports, std::vector<std::string>{
                         "rejected 10.0.0.7:1: it does not read its answers, and the store is full"});
  EXPECT_LE(server->stats().bytes, options.limits.total_bytes);

  const std::string half = '\x01' + text("/k") + i64(900'000) + std::string(700'000, 'x');
  network.give(a, half);
  EXPECT_TRUE(network.closed(less));
  EXPECT_FALSE(network.closed(little)) << "to end it makes no room";
  EXPECT_FALSE(network.closed(a));
  network.give(client(), half);
  EXPECT_EQ(reports.back(), "rejected 10.0.0.9:40000: the store is full");
}

TEST_F(ServerTest, AnOldValueThatIsOnlyInAnswersMakesRoom) {
  ServerOptions options;
  options.limits.total_bytes = 1'000'000;
  make(options);
  const ConnId a = client();
  ask(a, request(RequestKind::set, "/other", std::string(300'000, 'o')));
  std::vector<ConnId> readers;
  for (const char c : {'x', 'y', 'z'}) {
    ask(a, request(RequestKind::set, "/k", std::string(200'000, c)));
    readers.push_back(client());
    network.stop_reading(readers.back());
    ask(readers.back(), request(RequestKind::get, "/k"));
  }
  readers.push_back(client());
  network.stop_reading(readers.back());
  ask(readers.back(), request(RequestKind::get, "/other"));
  EXPECT_GE(server->stats().bytes, 900'000U);
  network.give(a, '\x01' + text("/k") + i64(200'000) + std::string(100'000, 'x'));
  EXPECT_TRUE(network.closed(readers[0]) || network.closed(readers[1]));
  EXPECT_FALSE(network.closed(readers[2])) << "what it reads is stored";
  EXPECT_FALSE(network.closed(readers[3])) << "what it reads is stored";
  EXPECT_FALSE(network.closed(a));
}

TEST_F(ServerTest, ClientThatDoesNotReadIsDisconnected) {
  ServerOptions options;
  options.limits.unread_time = 100s;
  make(options);
  ask(client(), request(RequestKind::set, "/k", std::string(100'000, 'x')));
  const ConnId stuck = network.arrive({"10.0.0.7", 1});
  const ConnId slow = network.arrive({"10.0.0.8", 1});
  for (const ConnId conn : {stuck, slow}) {
    network.stop_reading(conn);
    network.give(conn, greeting + encoded(request(RequestKind::get, "/k")));
  }
  for (int i = 0; i < 9; ++i) {
    network.pass(10s);
    network.take_some(slow, 100);
  }
  EXPECT_FALSE(network.closed(stuck));
  for (int i = 0; i < 3; ++i) network.pass(10s);
  EXPECT_TRUE(network.closed(stuck));
  EXPECT_FALSE(network.closed(slow));
  EXPECT_EQ(reports, std::vector<std::string>{"rejected 10.0.0.7:1: it does not read its answers"});
  network.read_again(slow);
  network.pass(10s);
  EXPECT_EQ(network.timers(), 0U) << "nobody has anything to read";
}

TEST_F(ServerTest, WithoutMemoryForAnAnswerItsConnectionEnds) {
  const ConnId waiting = client();
  const ConnId a = client();
  const ConnId other = client();
  ask(waiting, listing(RequestKind::wait, {"/k"}));
  network.fail_sends(1);
  ask(a, request(RequestKind::set, "/k", "v"));
  EXPECT_TRUE(network.closed(waiting)) << "it would wait for ever";
  EXPECT_FALSE(network.closed(a));
  network.fail_sends(1);
  ask(a, request(RequestKind::get, "/k"));
  EXPECT_TRUE(network.closed(a)) << "half an answer is none";
  EXPECT_EQ(ask(other, request(RequestKind::get, "/k")), text("v"));
}

TEST_F(ServerTest, BytesOfHalfRequestsAreCounted) {
  ServerOptions options;
  options.limits.total_bytes = 10'000;
  make(options);
  const ConnId a = client();
  const ConnId b = client();
  const std::string half = '\x01' + text("/k") + i64(9'000) + std::string(6'000, 'x');
  network.give(a, half);
  EXPECT_GE(server->stats().bytes, 6'000U);
  network.give(b, half);
  EXPECT_FALSE(network.closed(a));
  EXPECT_TRUE(network.closed(b));
  network.leave(a);
  EXPECT_EQ(server->stats().bytes, 0U);
}

TEST_F(ServerTest, ANewRoundBeginsEmpty) {
  const ConnId a = client();
  const ConnId waiting = client();
  const ConnId silent = network.arrive();
  ask(a, request(RequestKind::set, "/k", "old"));
  ask(waiting, listing(RequestKind::wait, {"/other"}));
  server->new_round();
  EXPECT_TRUE(network.closed(a));
  EXPECT_TRUE(network.closed(waiting));
  EXPECT_FALSE(network.closed(silent));  // closing it would cost a 1.13 worker a core
  EXPECT_EQ(server->stats().keys, 0U);
  EXPECT_EQ(server->stats().waiting, 0U);

  network.give(silent, greeting);  // a late greeting of the old round
  EXPECT_TRUE(network.closed(silent));
  const ConnId b = client();
  EXPECT_EQ(ask(b, request(RequestKind::get, "/k")), text(""));
  EXPECT_EQ(server->stats().rounds, 1U);
}

TEST_F(ServerTest, CountsRequestsByKind) {
  const ConnId a = client();
  ask(a, request(RequestKind::set, "/k", "v"));
  ask(a, request(RequestKind::get, "/k"));
  ask(a, request(RequestKind::get, "/k"));
  const StoreStats stats = server->stats();
  EXPECT_EQ(stats.requests[static_cast<std::size_t>(RequestKind::get)], 2U);
  EXPECT_EQ(stats.requests[static_cast<std::size_t>(RequestKind::set)], 1U);
  EXPECT_EQ(stats.connections_total, 1U);
  EXPECT_EQ(stats.keys, 1U);
}

// The protocol mux.

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

TEST_F(ServerTest, ClosesEverything) {
  const ConnId a = client();
  const ConnId undecided = network.arrive();
  server->close();
  EXPECT_TRUE(network.closed(a));
  EXPECT_TRUE(network.closed(undecided));
}

}  // namespace
}  // namespace dlaunch::store
