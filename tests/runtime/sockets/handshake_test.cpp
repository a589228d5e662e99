// How processes prove to each other that they belong to a job, without a network.

#include "runtime/sockets/handshake.h"

#include <gtest/gtest.h>

#include <string>

#include "store/base/hmac.h"

namespace dlaunch::internal {
namespace {

const std::string key(key_size, 'k');

Contact listener() { return {std::string(process_id_size, 'L'), "10.0.0.1", 4711, key, 3, 2}; }
const ProcessId connecting(process_id_size, 'C');

// Whether the listener accepts the peer.
bool is_let_in(const Contact& as_known) {
  const ClientHandshake claim(as_known, connecting);
  const auto handshake = ServerHandshake::begin(claim.opening(), listener().id, key);
  if (!handshake || handshake->claimed() != connecting) return false;
  const auto answer = claim.answer_to(handshake->challenge());
  return answer && handshake->accepts(*answer);
}

TEST(Proof, PassesWithTheKey) { EXPECT_TRUE(is_let_in(listener())); }

TEST(Proof, FailsWithAnotherKey) {
  Contact contact = listener();
  contact.key[31] = 'x';
  EXPECT_FALSE(is_let_in(contact));
}

TEST(Proof, FailsForAnotherProcess) {
  Contact contact = listener();
  contact.id[0] = 'x';
  EXPECT_FALSE(is_let_in(contact));
}

// A listener without the key gets no answer.
TEST(Proof, AsksTheListenerToo) {
  const ClientHandshake claim(listener(), connecting);
  const auto handshake = ServerHandshake::begin(claim.opening(), listener().id, std::string(key_size, 'x'));
  ASSERT_TRUE(handshake);
  EXPECT_FALSE(claim.answer_to(handshake->challenge()));
}

// These do not pass: a wrong answer, one of an earlier connection, the listener's own proof.
TEST(Proof, IsForOneConnectionAndOneSide) {
  const ClientHandshake claim(listener(), connecting);
  const auto first = ServerHandshake::begin(claim.opening(), listener().id, key);
  const auto second = ServerHandshake::begin(claim.opening(), listener().id, key);
  ASSERT_TRUE(first && second);
  const auto answer = claim.answer_to(first->challenge());
  ASSERT_TRUE(answer);
  EXPECT_TRUE(first->accepts(*answer));
  EXPECT_FALSE(second->accepts(*answer));
  EXPECT_FALSE(first->accepts(first->challenge().substr(nonce_size)));
  EXPECT_FALSE(first->accepts(std::string(answer_size, '\0')));
  EXPECT_NE(claim.opening(), ClientHandshake(listener(), connecting).opening());
}

TEST(Proof, GivesNothingAwayOfTheKey) {
  const ClientHandshake claim(listener(), connecting);
  const auto handshake = ServerHandshake::begin(claim.opening(), listener().id, key);
  const std::string all = claim.opening() + handshake->challenge() + *claim.answer_to(handshake->challenge());
  EXPECT_EQ(all.find(key.substr(0, 8)), std::string::npos);
}

TEST(Proof, EndsWithTheFirstWrongByte) {
  EXPECT_TRUE(ServerHandshake::may_begin("dlmesh"));
  EXPECT_FALSE(ServerHandshake::may_begin("GET / HT"));
  EXPECT_FALSE(ServerHandshake::may_begin(std::string(1, '\0')));
  EXPECT_FALSE(ServerHandshake::begin(std::string(opening_size, 'x'), listener().id, key));
}

TEST(Contact, ComesBackFromItsText) {
  EXPECT_EQ(parse_contact(to_text(listener())), listener());
  for (const char* wrong : {"", "x", "00 10.0.0.1 1 00 1 2"}) EXPECT_FALSE(parse_contact(wrong)) << wrong;
  EXPECT_FALSE(parse_contact(to_text(listener()) + " more"));
  EXPECT_FALSE(parse_contact(to_text(listener()).replace(0, 1, "x")));
}

}  // namespace
}  // namespace dlaunch::internal
