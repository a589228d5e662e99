// Few descriptors are left: which connections end, so that others may come.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/store/server/server_fixture.h"

namespace dlaunch::store {
namespace {

using namespace std::chrono_literals;
using namespace test;

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

}  // namespace
}  // namespace dlaunch::store
