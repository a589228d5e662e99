// Encryption is played: a session that reverses bytes once both ends have sent "hello".
#include "store/server/secure_network.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tests/store/server/fake_network.h"

namespace dlaunch::store {
namespace {

using std::chrono::seconds;

std::string mirrored(std::string_view bytes) { return {bytes.rbegin(), bytes.rend()}; }

class PlayedSession final : public SecureSession {
 public:
  std::string begin() override { return "hello"; }
  Result<void> take(ByteSpan bytes, std::string& plain, std::string& wire) override {
    const std::string_view text = as_text(bytes);
    if (is_up_) {
      plain += mirrored(text);
    } else if (text == "hello") {
      is_up_ = true;
      wire += "welcome";
    } else if (text == "welcome") {
      is_up_ = true;
    } else {
      wire += "alert";
      return Error{ErrorKind::refused, "", "", "another key", ""};
    }
    return {};
  }
  [[nodiscard]] bool is_up() const override { return is_up_; }
  void seal(ByteSpan plain, std::string& wire) override { wire += mirrored(as_text(plain)); }

 private:
  bool is_up_ = false;
};

// What a connection's owner sees.
struct Owner final : ConnectionHandler, ListenerHandler {
  ConnectionHandler& on_accepted(ConnId, const Address&) override { return *this; }
  void on_connected(ConnId) override { events += "connected "; }
  void on_received(ConnId conn, ByteSpan bytes) override {
    got += as_text(bytes);
    if (received) received(conn);
  }
  void on_closed(ConnId, const ConnectionEnd& end) override {
    events += "closed ";
    last = end;
  }
  std::string events;
  std::string got;
  ConnectionEnd last;
  std::function<void(ConnId)> received;
};

class SecureNetworkTest : public testing::Test {
 protected:
  SecureNetworkTest() { secured.emplace(network, network, sessions()); }
  static SecureNetwork::Sessions sessions() {
    const auto make = [] { return std::make_unique<PlayedSession>(); };
    return {make, make};
  }
  ConnId connect() {
    const ConnId conn = secured->connect({"b", 1}, network.now() + seconds(5), owner);
    network.answer(conn);
    EXPECT_EQ(network.take(conn), "hello");
    return conn;
  }
  // A client's connection, which is encrypted from its first bytes on.
  ConnId accept(std::string_view first = "hello") {
    (void)secured->listen({"*", 1}, owner);
    const ConnId conn = network.arrive();
    secured->secure(conn, as_byte_span(first), owner);
    return conn;
  }
  void send(ConnId conn, std::string_view bytes) { secured->send(conn, as_byte_span(bytes)); }

  test::FakeNetwork network;
  Owner owner;
  std::optional<SecureNetwork> secured;
};

TEST_F(SecureNetworkTest, AClientIsConnectedWhenBothHaveProvedTheirKey) {
  const ConnId conn = connect();
  EXPECT_EQ(owner.events, "") << "only the network is connected";
  EXPECT_TRUE(secured->is_secure(conn));
  network.give(conn, "welcome");
  EXPECT_EQ(owner.events, "connected ");
  send(conn, "abc");
  EXPECT_EQ(network.take(conn), "cba");
  network.give(conn, "fed");
  EXPECT_EQ(owner.got, "def");
  EXPECT_EQ(network.timers(), 0U) << "the handshake's time is no limit any more";
}

TEST_F(SecureNetworkTest, WhatIsSentEarlyFollowsTheHandshake) {
  const ConnId conn = connect();
  send(conn, "abc");
  send(conn, "");
  secured->send_shared(conn, SharedBytes("def"));
  EXPECT_EQ(network.take(conn), "") << "nothing in the clear";
  network.give(conn, "welcome");
  EXPECT_EQ(network.take(conn), "fedcba");
}

TEST_F(SecureNetworkTest, AServerAnswersTheFirstBytes) {
  const ConnId conn = accept();
  EXPECT_EQ(network.take(conn), "welcome");
  EXPECT_EQ(owner.events, "") << "it was accepted before";
  network.give(conn, "cba");
  EXPECT_EQ(owner.got, "abc");
}

TEST_F(SecureNetworkTest, AnotherKeyEndsTheConnectionAfterItsAlert) {
  const ConnId conn = accept("noise");
  EXPECT_EQ(network.take(conn), "alert") << "the peer learns why";
  EXPECT_TRUE(network.closed(conn));
  EXPECT_EQ(owner.events, "closed ");
  EXPECT_EQ(owner.last.kind, CloseKind::rejected);
  EXPECT_EQ(owner.last.reason.message(), "lost a TLS connection: another key");
  EXPECT_FALSE(secured->is_secure(conn));
}

TEST_F(SecureNetworkTest, AHandshakeHasTheDeadlineOfTheConnect) {
  const ConnId conn = connect();
  network.pass(seconds(5));
  EXPECT_TRUE(network.closed(conn));
  EXPECT_EQ(owner.last.kind, CloseKind::timed_out);
  EXPECT_EQ(owner.last.reason.message(),
            "cannot connect to b:1: the TLS handshake took too long (was it started with --tls, too?)");
  network.give(conn, "welcome");
  EXPECT_EQ(owner.events, "closed ");
}

TEST_F(SecureNetworkTest, APeerThatLeavesTheHandshakeMayHaveNoTls) {
  network.leave(connect());
  EXPECT_EQ(owner.last.kind, CloseKind::closed_by_peer);
  EXPECT_TRUE(owner.last.reason.why.ends_with(" during the TLS handshake (was it started with --tls, too?)"))
      << owner.last.reason.why;
}

TEST_F(SecureNetworkTest, ALaterEndIsReportedAsItIs) {
  const ConnId conn = connect();
  network.give(conn, "welcome");
  network.leave(conn);
  EXPECT_EQ(owner.last.reason.why, "closed by the peer");
  EXPECT_EQ(owner.events, "connected closed ");
}

TEST_F(SecureNetworkTest, AConnectThatFailsIsReportedAsItIs) {
  const ConnId conn = secured->connect({"b", 1}, network.now() + seconds(5), owner);
  network.fail(conn, {CloseKind::refused, {ErrorKind::network, "cannot connect to", "b:1", "refused", ""}});
  EXPECT_EQ(owner.last.reason.why, "refused");
  EXPECT_EQ(owner.last.kind, CloseKind::refused);
}

TEST_F(SecureNetworkTest, AnOwnerMayCloseWhileItIsCalled) {
  const ConnId conn = connect();
  owner.received = [this](ConnId one) { secured->close(one); };
  network.give(conn, "welcome");
  network.give(conn, "x");
  EXPECT_TRUE(network.closed(conn));
  EXPECT_EQ(owner.events, "connected ") << "what it closed itself is not reported";
  EXPECT_FALSE(secured->is_secure(conn));
}

TEST_F(SecureNetworkTest, ConnectionsThatAreNotSecuredPassThrough) {
  (void)secured->listen({"*", 1}, owner);
  const ConnId conn = network.arrive();
  network.give(conn, "abc");
  EXPECT_EQ(owner.got, "abc");
  send(conn, "def");
  EXPECT_EQ(network.take(conn), "def");
  secured.emplace(network, network, SecureNetwork::Sessions{});
  const ConnId plain = secured->connect({"b", 1}, network.now() + seconds(5), owner);
  network.answer(plain);
  EXPECT_EQ(owner.events, "connected ");
  EXPECT_EQ(network.take(plain), "");
}

TEST_F(SecureNetworkTest, AnotherHandlerGetsTheDecryptedBytes) {
  const ConnId conn = accept();
  Owner other;
  secured->hand_over(conn, other);
  network.give(conn, "cba");
  EXPECT_EQ(other.got, "abc");
  EXPECT_EQ(owner.got, "");
  secured.reset();
  EXPECT_TRUE(network.closed(conn));
  EXPECT_EQ(other.events, "");
}

TEST_F(SecureNetworkTest, ItsEndReportsNothing) {
  const ConnId conn = connect();
  secured.reset();
  EXPECT_TRUE(network.closed(conn));
  EXPECT_EQ(owner.events, "");
  EXPECT_EQ(network.timers(), 0U);
}

}  // namespace
}  // namespace dlaunch::store
