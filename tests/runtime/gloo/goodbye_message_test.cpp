// What a rank sends to the others before it leaves.

#include "runtime/backends/gloo/goodbye_message.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace dlaunch::internal {
namespace {

TEST(GoodbyeMessage, SaysWhyTheRankGivesUp) {
  const GoodbyeMessage own = GoodbyeMessage::giving_up("the disk is full", -1);
  EXPECT_EQ(own.kind, GoodbyeMessage::gave_up);
  EXPECT_EQ(own.reason(), "the disk is full");
  EXPECT_EQ(own.describe(), "it gave up: the disk is full");
  EXPECT_EQ(GoodbyeMessage::giving_up("it died", 0).describe(), "it gave up because of rank 0: it died");
}

TEST(GoodbyeMessage, OfAnOrderlyLeaveContinuesItsSentence) {
  const GoodbyeMessage words = GoodbyeMessage::leaving(in_exception);
  EXPECT_EQ(words.kind, GoodbyeMessage::left);
  EXPECT_EQ(left_the_group + words.reason(), "it has left the group while an exception was on its way");
  EXPECT_EQ(words.blamed, -1);
  EXPECT_EQ(GoodbyeMessage::leaving("").reason(), "");
}

// A text that fills the message has no end mark.
TEST(GoodbyeMessage, CutsALongReason) {
  const std::string exact(sizeof GoodbyeMessage::text, 'x');
  EXPECT_EQ(GoodbyeMessage::giving_up(exact, 2).reason(), exact);
  const GoodbyeMessage cut = GoodbyeMessage::giving_up(exact + "yz", 2);
  EXPECT_EQ(cut.reason(), exact);
  EXPECT_EQ(cut.blamed, 2);
  EXPECT_EQ(cut.kind, GoodbyeMessage::gave_up);
  EXPECT_EQ(GoodbyeMessage::leaving(exact + "yz").reason(), exact);
}

// As bytes between two processes.
TEST(GoodbyeMessage, ComesBackFromItsBytes) {
  const GoodbyeMessage sent = GoodbyeMessage::giving_up("why", 5);
  GoodbyeMessage got;
  EXPECT_EQ(got.kind, GoodbyeMessage::none);
  std::memcpy(&got, &sent, sizeof sent);
  EXPECT_EQ(got.describe(), sent.describe());
}

}  // namespace
}  // namespace dlaunch::internal
