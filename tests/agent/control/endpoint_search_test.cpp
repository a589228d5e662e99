// How a node finds the endpoint that leads.
#include "agent/control/endpoint_search.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class EndpointSearchTest : public ::testing::Test {
 protected:
  std::optional<std::size_t> advance() {
    const auto next = search_.advance(now_, deadline_);
    if (next) search_.dial(*next);
    return next;
  }
  // Endpoint 1 takes the node, the others do not answer, and nobody leads.
  void park() {
    EXPECT_EQ(advance(), 1U);
    search_.offer_fallback();
    EXPECT_EQ(advance(), 2U);
    EXPECT_EQ(advance(), 1U);
    ASSERT_TRUE(search_.is_parked());
  }

  TimePoint now_{seconds(100)};
  TimePoint deadline_{seconds(1000)};
  EndpointSearch search_{3, now_};
};

TEST_F(EndpointSearchTest, TriesAllAndThenPauses) {
  EXPECT_EQ(advance(), 1U);
  EXPECT_EQ(advance(), 2U);
  EXPECT_EQ(advance(), std::nullopt);
  EXPECT_EQ(search_.dial_at(), now_ + EndpointSearch::first_pause);
  EXPECT_EQ(search_.next(), 0U);
}

TEST_F(EndpointSearchTest, PausesGrowUpToALimitAndEndAtTheDeadline) {
  Duration last{};
  for (int i = 0; i < 30; ++i) {
    if (!advance()) last = *search_.dial_at() - now_;
  }
  EXPECT_EQ(last, EndpointSearch::longest_pause);
  deadline_ = now_ + milliseconds(1);
  while (advance()) {
  }
  EXPECT_EQ(search_.dial_at(), deadline_);
  search_.restart(now_);
  deadline_ = TimePoint(seconds(1000));
  while (advance()) {
  }
  EXPECT_EQ(search_.dial_at(), now_ + EndpointSearch::first_pause);
}

TEST_F(EndpointSearchTest, OneEndpointIsDialledAgainAfterAPause) {
  search_ = EndpointSearch(0, now_);
  EXPECT_EQ(search_.endpoints(), 1U);
  EXPECT_EQ(advance(), std::nullopt);
  EXPECT_EQ(search_.next(), 0U);
}

TEST_F(EndpointSearchTest, ParksAtTheFirstThatTookIt) {
  park();
  EXPECT_EQ(search_.parked_until(), now_ + EndpointSearch::shortest_park);
  search_.leave_park();
  EXPECT_EQ(advance(), std::nullopt);
  EXPECT_FALSE(search_.is_parked());
}

TEST_F(EndpointSearchTest, LongSearchParksForLonger) {
  now_ += seconds(5);
  park();
  EXPECT_EQ(search_.parked_until(), now_ + EndpointSearch::park_per_search * seconds(5));
  search_.restart(now_);
  now_ += seconds(500);
  search_.dial(0);
  park();
  EXPECT_EQ(search_.parked_until(), now_ + EndpointSearch::longest_park);
}

TEST_F(EndpointSearchTest, ParkedNodeProbesTheOthersInTurn) {
  park();
  EXPECT_EQ(search_.probe_at(), now_ + EndpointSearch::probe_pause);
  EXPECT_EQ(search_.probe_next(now_), 2U);
  EXPECT_EQ(search_.probe_at(), now_ + EndpointSearch::probe_timeout);
  EXPECT_EQ(search_.probe_next(now_), 0U);
  EXPECT_EQ(search_.probe_next(now_), 2U);
}

TEST_F(EndpointSearchTest, MovesToALeaderAndEndsTheSearch) {
  park();
  search_.probe_next(now_);
  EXPECT_FALSE(search_.take_answer(now_, {0, true, true, false})) << "another was asked";
  EXPECT_FALSE(search_.take_answer(now_, {2, false, true, false})) << "it does not answer";
  EXPECT_TRUE(search_.take_answer(now_, {2, true, true, false}));
  EXPECT_FALSE(search_.is_parked());
}

TEST_F(EndpointSearchTest, MovesToAnEarlierEndpointOnly) {
  park();
  search_.probe_next(now_);
  EXPECT_FALSE(search_.take_answer(now_, {2, true, false, false}));
  search_.probe_next(now_);
  EXPECT_FALSE(search_.take_answer(now_, {0, true, false, true})) << "it follows another leader";
  now_ += seconds(1);
  EXPECT_TRUE(search_.take_answer(now_, {0, true, false, false}));
  EXPECT_TRUE(search_.is_parked());
  EXPECT_EQ(search_.parked_until(), now_ + EndpointSearch::shortest_park);
}

TEST_F(EndpointSearchTest, ParksNotLongerThanTheDeadline) {
  deadline_ = now_ + seconds(1);
  park();
  EXPECT_EQ(search_.parked_until(), deadline_);
  now_ += EndpointSearch::probe_pause / 2;
  EXPECT_EQ(search_.probe_next(now_), 2U);
  EXPECT_EQ(search_.probe_next(now_), 0U);
  EXPECT_TRUE(search_.take_answer(now_, {.endpoint = 0, .answers = true}));
  EXPECT_EQ(search_.parked_until(), deadline_) << "also at an earlier endpoint";
}

}  // namespace
}  // namespace dlaunch::agent
