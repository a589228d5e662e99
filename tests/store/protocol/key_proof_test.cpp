#include "store/protocol/key_proof.h"

#include <gtest/gtest.h>

namespace dlaunch::store {
namespace {

using Verdict = KeyServer::Verdict;

const std::string one(key_nonce_size, '1');
const std::string two(key_nonce_size, '2');

// The result of a proof whose bytes come in pieces of this size: empty, or the side that rejected it and why.
std::string prove(const std::string& clients, const std::string& servers, std::size_t piece) {
  const KeyClient client(clients, one);
  KeyServer server(servers, two);
  std::string challenge;
  Verdict verdict = Verdict::undecided;
  const auto give = [&](std::string_view bytes) {
    for (; !bytes.empty() && verdict == Verdict::undecided;
         bytes.remove_prefix(std::min(piece, bytes.size()))) {
      ByteSpan span = as_byte_span(bytes.substr(0, piece));
      verdict = server.take(span, challenge);
      EXPECT_TRUE(span.empty());
    }
  };
  give(client.opening());
  if (challenge.size() != key_challenge_size) return "no challenge";
  const auto proof = client.answer(challenge);
  if (!proof) return "client: " + proof.error().why;
  give(*proof);
  return verdict == Verdict::proven ? "" : "server: " + std::string(server.why());
}

TEST(KeyProof, HolderOfTheKeyIsAccepted) {
  for (const std::size_t piece : {1U, 7U, 1000U}) EXPECT_EQ(prove("key", "key", piece), "");
}

TEST(KeyProof, AServerWithAnotherKeyIsNotBelieved) {
  EXPECT_EQ(prove("key", "other", 1000), "client: it has another secret");
  EXPECT_FALSE(KeyClient("key", one).answer("").ok());
}

TEST(KeyProof, AClientWithAnotherKeyIsRefused) {
  KeyServer server("key", two);
  std::string challenge;
  const std::string opening = KeyClient("key", one).opening();
  ByteSpan bytes = as_byte_span(opening);
  EXPECT_EQ(server.take(bytes, challenge), Verdict::undecided);
  const std::string wrong(mac_size, 'x');
  bytes = as_byte_span(wrong);
  EXPECT_EQ(server.take(bytes, challenge), Verdict::refused);
}

TEST(KeyProof, ARecordedOneIsOfNoUse) {
  const KeyClient client("key", one);
  KeyServer first("key", two);
  KeyServer second("key", std::string(key_nonce_size, '3'));
  std::string challenge;
  std::string unused;
  const std::string opening = client.opening();
  ByteSpan bytes = as_byte_span(opening);
  first.take(bytes, challenge);
  const std::string recorded = opening + *client.answer(challenge);
  bytes = as_byte_span(recorded);
  EXPECT_EQ(second.take(bytes, unused), Verdict::refused);
}

TEST(KeyProof, LeavesWhatFollows) {
  const KeyClient client("key", one);
  KeyServer server("key", two);
  std::string challenge;
  const std::string opening = client.opening();
  ByteSpan bytes = as_byte_span(opening);
  server.take(bytes, challenge);
  const std::string rest = *client.answer(challenge) + "rest";
  bytes = as_byte_span(rest);
  EXPECT_EQ(server.take(bytes, challenge), Verdict::proven);
  EXPECT_EQ(as_text(bytes), "rest");
}

TEST(KeyProof, OfAnotherVersionIsRefused) {
  KeyServer server("key", two);
  std::string challenge;
  const std::string opening = "\xD2STOREK\x09" + one;
  ByteSpan bytes = as_byte_span(opening);
  EXPECT_EQ(server.take(bytes, challenge), Verdict::refused);
  EXPECT_EQ(challenge, "");
}

}  // namespace
}  // namespace dlaunch::store
