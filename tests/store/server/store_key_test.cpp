// A store with a key as its peers see it: which clients are answered, from which hosts.
#include <gtest/gtest.h>

#include "store/protocol/key_proof.h"
#include "store/server/server.h"
#include "tests/store/server/fake_network.h"
#include "tests/store/server/requests.h"

namespace dlaunch::store {
namespace {

using namespace test;

const std::string key = store_key("s3cret");

class StoreKeyTest : public testing::Test {
 protected:
  StoreKeyTest() {
    ServerOptions options;
    options.key = {key, [] { return std::string(key_nonce_size, 'n'); },
                   [](const std::string& host) { return host == "10.0.0.1"; }};
    options.report = [this](const std::string& sentence) { reports.push_back(sentence); };
    server.emplace(network, network, network, std::move(options));
    EXPECT_TRUE(server->listen({"*", 29500}));
  }
  // Whether a client at this address without a proof is answered.
  bool is_answered(const std::string& host) {
    const ConnId conn = network.arrive({host, 40000});
    network.give(conn, greeting + encoded(numbered(RequestKind::add, "/n", 1)));
    return !network.closed(conn) && !network.take(conn).empty();
  }
  // A client at this address that proves this key; closed if it was rejected.
  ConnId prove(const std::string& host, const std::string& its_key) {
    const KeyClient client(its_key, std::string(key_nonce_size, 'c'));
    const ConnId conn = network.arrive({host, 40000});
    network.give(conn, client.opening());
    if (const auto proof = client.answer(network.take(conn))) {
      network.give(conn, *proof);
    } else {
      network.give(conn, std::string(mac_size, 'x'));
    }
    return conn;
  }

  FakeNetwork network;
  std::vector<std::string> reports;
  std::optional<StoreServer> server;
};

TEST_F(StoreKeyTest, ClientWithoutTheKeyIsRejectedAndLogged) {
  for (const RequestKind kind : {RequestKind::set, RequestKind::get, RequestKind::list_keys}) {
    const ConnId conn = network.arrive({"10.0.0.9", 40000});
    network.give(conn, greeting + encoded(request(kind, "/k", "v")));
    EXPECT_TRUE(network.closed(conn));
    EXPECT_EQ(network.take(conn), "");
  }
  EXPECT_EQ(server->stats().keys, 0U);
  EXPECT_EQ(reports, (std::vector<std::string>{
                         "rejected 10.0.0.9:40000: it has not proved this store's secret, and no node of "
                         "the job has its address"}));
}

TEST_F(StoreKeyTest, ProofOfTheKeyIsAcceptedFromAnyHost) {
  const ConnId conn = prove("10.0.0.9", key);
  network.give(conn, greeting + encoded(numbered(RequestKind::add, "/n", 1)));
  EXPECT_EQ(network.take(conn), i64(1));
}

TEST_F(StoreKeyTest, AnotherKeyIsRefused) {
  const ConnId conn = prove("10.0.0.9", store_key("other"));
  EXPECT_TRUE(network.closed(conn));
  EXPECT_EQ(reports.back(),
            "rejected 10.0.0.9:40000: its secret differs from the store's (--token-file, DLAUNCH_TOKEN)");
}

TEST_F(StoreKeyTest, ThisMachinesClientsNeedNotProve) {
  for (const char* own : {"127.0.0.1", "127.0.0.2", "::1", "10.0.0.1"}) EXPECT_TRUE(is_answered(own)) << own;
  EXPECT_FALSE(is_answered("10.0.0.2"));
}

TEST_F(StoreKeyTest, NorDoThoseOfTrustedNodesUntilTheNextRound) {
  EXPECT_FALSE(is_answered("10.0.0.2"));
  server->trust("10.0.0.2");
  EXPECT_TRUE(is_answered("10.0.0.2"));
  EXPECT_FALSE(is_answered("10.0.0.3"));
  server->new_round();
  EXPECT_FALSE(is_answered("10.0.0.2"));
}

TEST_F(StoreKeyTest, BlockedHostIsRejectedDespiteTheKey) {
  server->new_round({"10.0.0.9"});
  const ConnId conn = prove("10.0.0.9", key);
  network.give(conn, greeting + encoded(numbered(RequestKind::add, "/n", 1)));
  EXPECT_TRUE(network.closed(conn));
}

TEST_F(StoreKeyTest, AStoreWithoutAKeyTakesNoProof) {
  server.reset();
  server.emplace(network, network, network, ServerOptions{});
  ASSERT_TRUE(server->listen({"*", 29500}));
  const ConnId conn = network.arrive();
  network.give(conn, KeyClient(key, std::string(key_nonce_size, 'c')).opening());
  EXPECT_TRUE(network.closed(conn));
}

}  // namespace
}  // namespace dlaunch::store
