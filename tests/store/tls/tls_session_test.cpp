// Two sessions whose bytes are carried by hand.
#include "store/tls/tls_session.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dlaunch::store {
namespace {

const std::string secret = "s3cret";

class TlsSessionTest : public testing::Test {
 protected:
  TlsSessionTest() { make(tls_key_of_agents(secret), {tls_key_of_store("key"), tls_key_of_agents(secret)}); }

  void make(TlsKey clients, std::vector<TlsKey> servers) {
    client_ = make_tls_session(make_tls_client(std::move(clients)));
    server_ = make_tls_session(make_tls_server(std::move(servers)));
  }
  // Carries the bytes to the session, in pieces; returns its answer for the wire.
  std::string carry(SecureSession& to, std::string_view bytes, std::string& plain,
                    std::size_t piece = SIZE_MAX) {
    std::string answer;
    while (!bytes.empty()) {
      const std::string_view part = bytes.substr(0, piece);
      bytes.remove_prefix(part.size());
      if (const auto taken = to.take(as_byte_span(part), plain, answer); !taken) {
        failure_ = taken.error();
        break;
      }
    }
    return answer;
  }
  void shake_hands(std::size_t piece = SIZE_MAX) {
    std::string plain;
    std::string wire = client_->begin();
    while (!wire.empty()) wire = carry(*client_, carry(*server_, wire, plain, piece), plain, piece);
    EXPECT_EQ(plain, "");
  }
  static std::string sealed(SecureSession& by, std::string_view plain) {
    std::string wire;
    by.seal(as_byte_span(plain), wire);
    return wire;
  }

  std::unique_ptr<SecureSession> client_;
  std::unique_ptr<SecureSession> server_;
  Error failure_;
};

TEST_F(TlsSessionTest, TheSameKeyOpensBothEnds) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, SIZE_MAX}) {
    make(tls_key_of_agents(secret), {tls_key_of_store("key"), tls_key_of_agents(secret)});
    EXPECT_FALSE(client_->is_up() || server_->is_up());
    shake_hands(piece);
    EXPECT_TRUE(client_->is_up());
    EXPECT_TRUE(server_->is_up());
  }
}

TEST_F(TlsSessionTest, BytesOfAnySizeArriveInBothDirections) {
  shake_hands();
  for (const std::size_t size : {0U, 1U, 16'383U, 16'384U, 16'385U, 100'000U}) {
    const std::string bytes(size, 'v');
    for (auto [from, to] :
         {std::pair(client_.get(), server_.get()), std::pair(server_.get(), client_.get())}) {
      const std::string wire = sealed(*from, bytes);
      EXPECT_EQ(wire.find("vvvv"), std::string::npos);
      std::string plain;
      EXPECT_EQ(carry(*to, wire, plain, 1000), "");
      EXPECT_EQ(plain, bytes);
    }
  }
}

TEST_F(TlsSessionTest, WhatFollowsTheHandshakeInTheSamePieceIsRead) {
  std::string plain;
  const std::string flight = carry(*server_, client_->begin(), plain);
  const std::string last = carry(*client_, flight, plain);
  carry(*server_, last + sealed(*client_, "early"), plain);
  EXPECT_EQ(plain, "early");
}

TEST_F(TlsSessionTest, AnotherKeyOfTheSameNameIsRefused) {
  make(tls_key_of_agents("other"), {tls_key_of_agents(secret)});
  shake_hands();
  EXPECT_FALSE(client_->is_up());
  EXPECT_FALSE(server_->is_up());
  EXPECT_EQ(failure_.kind, ErrorKind::refused);
  EXPECT_TRUE(failure_.why.ends_with("both ends need the same secret")) << failure_.why;
  EXPECT_EQ(failure_.hint, "give both the same --token-file");
}

TEST_F(TlsSessionTest, AKeyOfAnotherNameIsRefused) {
  make(tls_key_of_store("key"), {tls_key_of_agents(secret)});
  shake_hands();
  EXPECT_FALSE(client_->is_up() || server_->is_up());
  EXPECT_EQ(failure_.kind, ErrorKind::refused);
}

TEST_F(TlsSessionTest, KeysAreDerivedForTheirUse) {
  EXPECT_EQ(tls_key_of_store(secret).key.size(), 32U);
  EXPECT_NE(tls_key_of_store(secret).key, tls_key_of_agents(secret).key);
  EXPECT_NE(tls_key_of_store(secret).identity, tls_key_of_agents(secret).identity);
  EXPECT_NE(tls_key_of_agents(secret).key, tls_key_of_agents("other").key);
  EXPECT_EQ(tls_key_of_agents(secret).key.find(secret), std::string::npos);
}

TEST_F(TlsSessionTest, AChangedByteIsNotDelivered) {
  shake_hands();
  std::string wire = sealed(*client_, "a value");
  wire.back() = static_cast<char>(wire.back() ^ 1);
  std::string plain;
  carry(*server_, wire, plain);
  EXPECT_EQ(plain, "");
  EXPECT_EQ(failure_.kind, ErrorKind::network);
  EXPECT_TRUE(failure_.why.starts_with("the TLS connection ended: ")) << failure_.why;
}

TEST_F(TlsSessionTest, ARepeatedRecordIsNotDelivered) {
  shake_hands();
  const std::string wire = sealed(*client_, "once");
  std::string plain;
  carry(*server_, wire + wire, plain, wire.size());
  EXPECT_EQ(plain, "once");
  EXPECT_EQ(failure_.kind, ErrorKind::network);
}

TEST_F(TlsSessionTest, NoiseIsRefused) {
  std::string plain;
  carry(*server_, "GET / HTTP/1.1\r\n\r\n" + std::string(1000, 'x'), plain);
  EXPECT_EQ(failure_.kind, ErrorKind::refused);
  EXPECT_FALSE(server_->is_up());
  EXPECT_EQ(plain, "");
}

// A recording of one session is of no use in another, though the key is the same.
TEST_F(TlsSessionTest, EachSessionHasItsOwnKeys) {
  shake_hands();
  const std::string recorded = sealed(*client_, "a value");
  make(tls_key_of_agents(secret), {tls_key_of_agents(secret)});
  shake_hands();
  ASSERT_TRUE(server_->is_up());
  std::string plain;
  carry(*server_, recorded, plain);
  EXPECT_EQ(plain, "");
  EXPECT_EQ(failure_.kind, ErrorKind::network);
}

TEST_F(TlsSessionTest, ASideMayEndBeforeItsSessions) {
  auto side = make_tls_server({tls_key_of_agents(secret)});
  server_ = make_tls_session(side);
  side.reset();
  shake_hands();
  EXPECT_TRUE(server_->is_up());
}

}  // namespace
}  // namespace dlaunch::store
