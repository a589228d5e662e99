// Who can speak to whom with which secret. How --tls becomes the other program: tests/process/secret_test.py.
#include "launcher/node/tls.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "store/protocol/key_proof.h"

namespace dlaunch::launcher {
namespace {

TEST(CheckTls, WithoutTheFlagNothingIsNeeded) { EXPECT_TRUE(check_tls(false, "").ok()); }

#ifdef DLAUNCH_HAS_TLS

// Whether a handshake of the two succeeds on both sides.
bool meet(const std::unique_ptr<SecureSession>& client, const std::unique_ptr<SecureSession>& server) {
  std::string plain;
  std::string to_server = client->begin();
  while (!to_server.empty()) {
    std::string to_client;
    const auto taken = server->take(as_byte_span(to_server), plain, to_client);
    to_server.clear();
    if (!client->take(as_byte_span(to_client), plain, to_server).ok() || !taken.ok()) return false;
  }
  return client->is_up() && server->is_up();
}

TEST(CheckTls, NeedsASecret) {
  EXPECT_TRUE(check_tls(true, "s3cret").ok());
  const auto without = check_tls(true, "");
  ASSERT_FALSE(without.ok());
  EXPECT_EQ(without.error().kind, ErrorKind::invalid);
  EXPECT_EQ(without.error().message(),
            "--tls needs a secret: its keys are derived from it; give --token-file");
}

TEST(ContinueWithTls, ReturnsInTheProgramThatHasIt) { EXPECT_TRUE(continue_with_tls({"dlaunch"}, "").ok()); }

TEST(TlsSessions, AgentsOfOneSecretMeet) {
  const auto sessions = tls_sessions("s3cret");
  EXPECT_TRUE(meet(sessions.client(), sessions.server()));
  EXPECT_TRUE(meet(tls_sessions("s3cret").client(), sessions.server())) << "of another process";
  EXPECT_FALSE(meet(tls_sessions("other").client(), sessions.server()));
}

// Agents and store clients share a port.
TEST(TlsSessions, AnAgentsPortTakesTheStoresClients) {
  const auto client = tls_client(store_key("s3cret"))();
  ASSERT_TRUE(client.ok());
  EXPECT_TRUE(meet(*client, tls_sessions("s3cret").server()));
  const auto other = tls_client(store_key("other"))();
  EXPECT_FALSE(meet(*other, tls_sessions("s3cret").server()));
}

TEST(TlsSessions, AStoreOfItsOwnTakesClientsOnly) {
  const auto store = tls_store_sessions("s3cret");
  EXPECT_FALSE(store.client);
  const auto client = tls_client(store_key("s3cret"))();
  EXPECT_TRUE(meet(*client, store.server()));
  EXPECT_FALSE(meet(tls_sessions("s3cret").client(), store.server())) << "an agent has nothing to do there";
}

#else

TEST(CheckTls, WithoutOpensslItIsRefused) {
  EXPECT_EQ(check_tls(true, "s3cret").error().kind, ErrorKind::refused);
  EXPECT_FALSE(tls_client("key")().ok());
}

#endif

}  // namespace
}  // namespace dlaunch::launcher
