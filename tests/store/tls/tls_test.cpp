// Encrypted connections of a store: the server over a network without wires, the client as a TLS session.
#include <gtest/gtest.h>

#include "store/protocol/key_proof.h"
#include "store/server/server.h"
#include "store/tls/tls_session.h"
#include "tests/store/server/fake_network.h"
#include "tests/store/server/requests.h"

namespace dlaunch::store {
namespace {

using namespace test;

const std::string key = store_key("s3cret");

class TlsTest : public testing::Test {
 protected:
  TlsTest() : secured(network, network, {{}, [this] { return make_tls_session(side); }}) {
    ServerOptions options;
    options.key = {key, [] { return std::string(key_nonce_size, 'n'); }, {}, true};
    options.secure = &secured;
    options.report = [this](const std::string& sentence) { reports.push_back(sentence); };
    server.emplace(secured, network, network, std::move(options));
    EXPECT_TRUE(server->listen({"*", 29500}));
  }

  // Exchanges bytes in pieces of this size, until server and client have nothing to send.
  std::string talk(ConnId conn, SecureSession& client, std::string wire, std::size_t piece) {
    std::string plain;
    while (!wire.empty()) {
      for (std::string_view rest = wire; !rest.empty(); rest.remove_prefix(std::min(piece, rest.size())))
        network.give(conn, rest.substr(0, piece));
      wire.clear();
      const std::string answer = network.take(conn);
      const auto taken = client.take(as_byte_span(answer), plain, wire);
      failure = taken ? "" : taken.error().why;
    }
    return plain;
  }
  static std::string sealed(SecureSession& client, const std::string& plain) {
    std::string wire;
    client.seal(as_byte_span(plain), wire);
    return wire;
  }

  FakeNetwork network;
  std::shared_ptr<TlsSide> side = make_tls_server({tls_key_of_agents("s3cret"), tls_key_of_store(key)});
  SecureNetwork secured;
  std::vector<std::string> reports;
  std::optional<StoreServer> server;
  std::string failure;
};

TEST_F(TlsTest, HolderOfTheKeyIsAcceptedAndAllBytesAreEncrypted) {
  for (const std::size_t piece : {1U, 100U, 100'000U}) {
    const auto client = make_tls_session(make_tls_client(tls_key_of_store(key)));
    const ConnId conn = network.arrive({"10.0.0.9", 40000});
    EXPECT_EQ(talk(conn, *client, client->begin(), piece), "");
    ASSERT_TRUE(client->is_up()) << failure;
    const std::string value(50'000, 'v');
    const std::string wire = sealed(*client, greeting + encoded(request(RequestKind::set, "/k", value)) +
                                                 encoded(request(RequestKind::get, "/k")));
    EXPECT_EQ(wire.find("vvvv"), std::string::npos);
    EXPECT_EQ(talk(conn, *client, wire, piece), text(value));
    network.leave(conn);
  }
  EXPECT_EQ(reports, std::vector<std::string>{});
}

TEST_F(TlsTest, AnotherKeyIsRefusedAndReported) {
  const auto client = make_tls_session(make_tls_client(tls_key_of_store(store_key("other"))));
  const ConnId conn = network.arrive({"10.0.0.9", 40000});
  talk(conn, *client, client->begin(), 1000);
  EXPECT_FALSE(client->is_up());
  EXPECT_NE(failure.find("both ends need the same secret"), std::string::npos) << failure;
  EXPECT_TRUE(network.closed(conn));
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_NE(reports[0].find("both ends need the same secret"), std::string::npos) << reports[0];
}

TEST_F(TlsTest, AServerWithAnotherKeyIsNotBelieved) {
  side = make_tls_server({tls_key_of_store(store_key("other"))});
  const auto client = make_tls_session(make_tls_client(tls_key_of_store(key)));
  const ConnId conn = network.arrive({"10.0.0.9", 40000});
  talk(conn, *client, client->begin(), 1000);
  EXPECT_FALSE(client->is_up());
}

TEST_F(TlsTest, InTheClearOnlyThisMachineIsAnswered) {
  const auto ask = [this](const std::string& host, const std::string& bytes) {
    const ConnId conn = network.arrive({host, 40000});
    network.give(conn, bytes);
    return network.closed(conn) ? "closed" : network.take(conn);
  };
  const std::string add = greeting + encoded(numbered(RequestKind::add, "/n", 1));
  EXPECT_EQ(ask("127.0.0.1", add), i64(1));
  server->trust("10.0.0.2");
  EXPECT_EQ(ask("10.0.0.2", add), "closed");
  EXPECT_EQ(ask("10.0.0.2", KeyClient(key, std::string(key_nonce_size, 'c')).opening()), "closed");
  EXPECT_EQ(ask("10.0.0.2", std::string("\xD1LAUNCH\x05")), "closed");
}

TEST_F(TlsTest, NoiseEndsTheConnection) {
  const ConnId conn = network.arrive({"10.0.0.9", 40000});
  network.give(conn, "\x16\x03\x01" + std::string(1000, 'x'));
  EXPECT_TRUE(network.closed(conn));
  EXPECT_EQ(server->stats().undecided, 0U);
}

}  // namespace
}  // namespace dlaunch::store
