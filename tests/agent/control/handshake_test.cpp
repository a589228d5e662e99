#include "agent/control/handshake.h"

#include <gtest/gtest.h>

#include "store/base/hmac.h"

namespace dlaunch::agent {
namespace {

const std::string one(nonce_size, '1');
const std::string two(nonce_size, '2');

// What becomes of a whole handshake: empty, or why it was refused, and by whom.
std::string shake(const std::string& members, const std::string& coordinators) {
  const MemberHandshake member(members, one);
  CoordinatorHandshake coordinator(coordinators, two);
  auto challenge = coordinator.hear(member.hello());
  if (!challenge) return "coordinator: " + challenge.error().why;
  auto proof = member.answer(std::get<Challenge>(**challenge));
  if (!proof) return "member: " + proof.error().why;
  auto end = coordinator.hear(*proof);
  if (!end) return "coordinator: " + end.error().why;
  return coordinator.is_done() ? "" : "it has not ended";
}

TEST(Handshake, CorrectSecretIsAccepted) {
  EXPECT_EQ(shake("secret", "secret"), "");
  EXPECT_EQ(shake("secret", "Secret"),
            "member: it has another secret than this node (--token-file, DLAUNCH_TOKEN)");
}

TEST(Handshake, WithoutASecretThereIsNone) {
  EXPECT_FALSE(MemberHandshake("", "").is_needed());
  EXPECT_TRUE(CoordinatorHandshake("", "").is_done());
}

TEST(Handshake, SkippedHandshakeIsRejected) {
  CoordinatorHandshake coordinator("secret", two);
  EXPECT_FALSE(coordinator.hear(Join{}).ok());
  EXPECT_FALSE(coordinator.hear(Proof{hmac_sha256("secret", "dlaunch member" + two)}).ok());
  EXPECT_FALSE(coordinator.hear(Hello{"short"}).ok());
  EXPECT_FALSE(coordinator.is_done());
}

TEST(Handshake, ReplayIsRejected) {
  const MemberHandshake member("secret", one);
  CoordinatorHandshake first("secret", two);
  const auto challenge = first.hear(member.hello());
  const auto proof = member.answer(std::get<Challenge>(**challenge));
  CoordinatorHandshake second("secret", std::string(nonce_size, '3'));
  ASSERT_TRUE(second.hear(member.hello()).ok());
  EXPECT_FALSE(second.hear(*proof).ok());
  // Nor is what a coordinator said for another member.
  EXPECT_FALSE(
      MemberHandshake("secret", std::string(nonce_size, '4')).answer(std::get<Challenge>(**challenge)).ok());
  // Nor a member's own words, sent back.
  CoordinatorHandshake mirror("secret", one);
  const auto reflected = mirror.hear(Hello{two});
  EXPECT_FALSE(member.answer({two, std::get<Challenge>(**reflected).mac}).ok());
}

}  // namespace
}  // namespace dlaunch::agent
