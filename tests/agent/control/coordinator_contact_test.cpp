#include "agent/control/coordinator_contact.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

class CoordinatorContactTest : public ::testing::Test {
 protected:
  CoordinatorContactTest() { contact_.begin(now_); }

  TimePoint now_{seconds(100)};
  CoordinatorContact contact_{seconds(8), seconds(2), seconds(1)};
};

TEST_F(CoordinatorContactTest, NewConnectionDoesNotLeadYet) {
  EXPECT_TRUE(contact_.is_up());
  EXPECT_FALSE(contact_.leads());
  contact_.set_leads(true);
  contact_.begin(now_);
  EXPECT_FALSE(contact_.leads()) << "it is another connection";
}

TEST_F(CoordinatorContactTest, HeartbeatsAreDueOnceAnInterval) {
  contact_.set_stamp(7);
  EXPECT_FALSE(contact_.take_heartbeat(now_ + seconds(1)));
  EXPECT_TRUE(contact_.take_heartbeat(now_ + seconds(2)));
  EXPECT_FALSE(contact_.take_heartbeat(now_ + seconds(3)));
  EXPECT_EQ(contact_.wake_at(), now_ + seconds(4));
  EXPECT_EQ(contact_.heartbeat(now_), (Heartbeat{7, stamp_of(now_), {}}));
}

TEST_F(CoordinatorContactTest, SilenceForTheTimeoutIsALoss) {
  for (int i = 1; i <= 3; ++i) EXPECT_TRUE(contact_.take_heartbeat(now_ + seconds(2 * i)));
  EXPECT_FALSE(contact_.is_lost(now_ + seconds(7)));
  EXPECT_TRUE(contact_.is_lost(now_ + seconds(8)));
  contact_.on_message(now_ + seconds(7));
  EXPECT_FALSE(contact_.is_lost(now_ + seconds(8)));
  EXPECT_EQ(contact_.last_heard(), now_ + seconds(7));
}

// Its messages may wait in the socket.
TEST_F(CoordinatorContactTest, ProcessThatDidNotRunWaitsALittleLonger) {
  EXPECT_FALSE(contact_.is_lost(now_ + seconds(9)));
  EXPECT_FALSE(contact_.has_given_up(now_ + seconds(9)));
  EXPECT_TRUE(contact_.has_given_up(now_ + seconds(10)));
  EXPECT_TRUE(contact_.is_lost(now_ + seconds(10)));
}

TEST_F(CoordinatorContactTest, NothingIsDueWithoutAConnectionOrATimeout) {
  contact_.end();
  EXPECT_FALSE(contact_.is_up());
  EXPECT_FALSE(contact_.wake_at());
  EXPECT_FALSE(contact_.is_lost(now_ + seconds(1000)));
  CoordinatorContact without{seconds(0), seconds(0), seconds(1)};
  without.begin(now_);
  EXPECT_TRUE(without.is_up());
  EXPECT_FALSE(without.wake_at());
  EXPECT_FALSE(without.take_heartbeat(now_ + seconds(1000)));
  EXPECT_FALSE(without.is_lost(now_ + seconds(1000)));
}

}  // namespace
}  // namespace dlaunch::agent
