#include "agent/model/link_state.h"

#include <gtest/gtest.h>

#include <vector>

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

LinkState unanswered(int peer, std::uint32_t retransmissions, Duration silent) {
  LinkState link;
  link.peer = peer;
  link.unacknowledged = 3;
  link.retransmissions = retransmissions;
  link.silent = silent;
  return link;
}

StalledLink worst(const std::vector<LinkState>& links) { return worst_link(links); }

TEST(LinkState, ALostSegmentMeansNothing) {
  EXPECT_EQ(worst({}).peer, -1);
  EXPECT_EQ(worst({unanswered(2, 2, seconds(1))}).peer, -1);
  EXPECT_EQ(worst({unanswered(2, 3, seconds(2))}), (StalledLink{2, false, 3, seconds(2)}));
  LinkState acknowledged = unanswered(2, 9, seconds(2));
  acknowledged.unacknowledged = 0;
  EXPECT_EQ(worst({acknowledged}).peer, -1);
}

TEST(LinkState, TheOtherEndHasNoRoom) {
  LinkState full;
  full.peer = 4;
  full.unsent = 100;
  full.since_sent = milliseconds(999);
  EXPECT_EQ(worst({full}).peer, -1);
  full.since_sent = seconds(5);
  EXPECT_EQ(worst({full}), (StalledLink{4, true, 0, seconds(5)}));
  full.unacknowledged = 1;  // it moves
  EXPECT_EQ(worst({full}).peer, -1);
}

TEST(LinkState, AHostThatDoesNotSayWhetherThereIsRoom) {
  LinkState gone;
  gone.peer = 1;
  gone.unsent = 100;
  gone.probes = 3;
  gone.silent = seconds(7);
  gone.since_sent = seconds(9);
  EXPECT_EQ(worst({gone}), (StalledLink{1, false, 3, seconds(7)}));
}

TEST(LinkState, TheOneThatIsSilentForLongestIsTheWorst) {
  LinkState full;
  full.peer = 4;
  full.unsent = 100;
  full.since_sent = seconds(50);
  EXPECT_EQ(
      worst({unanswered(1, 4, seconds(3)), unanswered(2, 3, seconds(8)), unanswered(3, 4, seconds(5))}).peer,
      2);
  EXPECT_EQ(worst({full, unanswered(1, 4, seconds(3))}).peer, 1) << "a full one may only be slow";
}

}  // namespace
}  // namespace dlaunch::agent
