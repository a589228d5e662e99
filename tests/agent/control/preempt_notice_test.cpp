#include "agent/control/preempt_notice.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

TEST(PreemptNoticeTest, EndFollowsOnceAfterTheNotice) {
  const TimePoint now{seconds(100)};
  PreemptNotice notice;
  EXPECT_FALSE(notice.is_pending());
  EXPECT_FALSE(notice.take_end(now));
  notice.begin(now, now + seconds(5));
  EXPECT_TRUE(notice.is_pending());
  EXPECT_EQ(notice.until(), now + seconds(5));
  EXPECT_FALSE(notice.take_end(now + seconds(4)));
  EXPECT_TRUE(notice.take_end(now + seconds(5)));
  EXPECT_FALSE(notice.take_end(now + seconds(6)));
  EXPECT_FALSE(notice.until());
  EXPECT_TRUE(notice.is_pending()) << "its workers may end now, and that is no failure";
}

TEST(PreemptNoticeTest, ASchedulerThatAsksTwiceMeansOneEnd) {
  const TimePoint now{seconds(100)};
  PreemptNotice notice;
  EXPECT_FALSE(notice.is_repeated(now)) << "nobody has asked yet";
  notice.begin(now, now + seconds(20));
  EXPECT_TRUE(notice.is_repeated(now + seconds(4)));
  EXPECT_FALSE(notice.is_repeated(now + seconds(5)));
}

TEST(PreemptNoticeTest, ItsOwnEndIsNoRepetition) {
  const TimePoint now{seconds(100)};
  PreemptNotice notice;
  notice.begin(now, now + seconds(1));
  EXPECT_TRUE(notice.take_end(now + seconds(1)));
  EXPECT_FALSE(notice.is_repeated(now + seconds(1)));
}

TEST(PreemptNoticeTest, WorkersGetOneSignalARound) {
  PreemptNotice notice;
  EXPECT_TRUE(notice.take_signal());
  EXPECT_FALSE(notice.take_signal());
  notice.on_world();
  EXPECT_TRUE(notice.take_signal());
}

}  // namespace
}  // namespace dlaunch::agent
