#include "runtime/rpc_protocol/reference_leases.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace dlaunch::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Workers = std::set<WorkerId>;

constexpr milliseconds length = seconds(8);

class LeasesTest : public testing::Test {
 protected:
  ReferenceLeases leases_{length};
  Deadline now_{seconds(1000)};
};

TEST_F(LeasesTest, AUserRenewsUntilTheOwnerIsSilentForALease) {
  EXPECT_EQ(leases_.look(now_, {1, 2}, {}).renew, (Workers{1, 2}));
  now_ += length - milliseconds(1);
  leases_.on_acknowledged(1, now_);
  EXPECT_EQ(leases_.look(now_, {1, 2}, {}).over, Workers{});
  now_ += milliseconds(1);
  const auto found = leases_.look(now_, {1, 2}, {});
  EXPECT_EQ(found.renew, Workers{1});
  EXPECT_EQ(found.over, Workers{2});
}

TEST_F(LeasesTest, AnAcknowledgementCountsFromTheTimeWhenItsRenewalWasSent) {
  leases_.look(now_, {1}, {});
  const Deadline sent = now_ + seconds(1);
  now_ += seconds(7);
  leases_.on_acknowledged(1, sent);
  leases_.on_acknowledged(1, now_ - seconds(7));  // an earlier one, late
  EXPECT_EQ(leases_.look(sent + length - milliseconds(1), {1}, {}).over, Workers{});
  EXPECT_EQ(leases_.look(sent + length, {1}, {}).over, Workers{1});
}

TEST_F(LeasesTest, AnOwnerWaitsForHalfALeaseMore) {
  leases_.look(now_, {}, {3});
  EXPECT_EQ(leases_.look(now_ + length, {}, {3}).over, Workers{});
  leases_.on_renewal(3, now_ + length);
  now_ += length;
  EXPECT_EQ(leases_.look(now_ + length + length / 2 - milliseconds(1), {}, {3}).over, Workers{});
  EXPECT_EQ(leases_.look(now_ + length + length / 2, {}, {3}).over, Workers{3});
}

TEST_F(LeasesTest, ALeaseEndsWithTheReferencesAndBeginsAgainWithThem) {
  leases_.look(now_, {1}, {3});
  leases_.look(now_ + seconds(1), {}, {});
  now_ += 10 * length;
  EXPECT_EQ(leases_.look(now_, {1}, {3}).over, Workers{});
  leases_.on_renewal(7, now_);  // it uses nothing
  leases_.on_acknowledged(7, now_);
}

TEST(Leases, WithoutALengthNothingEnds) {
  ReferenceLeases none{milliseconds(0)};
  EXPECT_FALSE(none.is_on());
  const Deadline now{seconds(1)};
  none.look(now, {1}, {2});
  const auto found = none.look(now + std::chrono::hours(1000), {1}, {2});
  EXPECT_TRUE(found.over.empty() && found.renew.empty());
}

// Renewals and acknowledgements are delayed and lost, in phases of which some have no connection at all.
TEST(Leases, TheUserGivesUpBeforeTheOwner) {
  int given_up = 0;
  for (unsigned seed = 1; seed <= 2000; ++seed) {
    std::mt19937 random(seed);
    ReferenceLeases user{length};
    ReferenceLeases owner{length};
    std::multimap<milliseconds, milliseconds> renewals;  // by arrival: when sent
    std::multimap<milliseconds, milliseconds> acknowledgements;
    bool user_is_over = false;
    bool is_connected = true;
    const auto at = [](milliseconds time) { return Deadline{seconds(1000) + time}; };
    for (milliseconds time{0}; time < seconds(120); time += milliseconds(250)) {
      if (random() % 64 == 0) is_connected = !is_connected;
      const auto delay = [&] { return milliseconds(random() % 3000); };
      if (!user_is_over && time % user.period() == milliseconds(0)) {
        const auto found = user.look(at(time), {0}, {});
        user_is_over = found.over.contains(0);
        if (found.renew.contains(0) && is_connected) renewals.emplace(time + delay(), time);
      }
      for (; !renewals.empty() && renewals.begin()->first <= time; renewals.erase(renewals.begin())) {
        owner.on_renewal(1, at(time));
        if (is_connected) acknowledgements.emplace(time + delay(), renewals.begin()->second);
      }
      for (; !acknowledgements.empty() && acknowledgements.begin()->first <= time;
           acknowledgements.erase(acknowledgements.begin()))
        user.on_acknowledged(0, at(acknowledgements.begin()->second));
      if (owner.look(at(time), {}, {1}).over.contains(1)) {
        ++given_up;
        ASSERT_TRUE(user_is_over) << "seed " << seed;
        break;
      }
    }
  }
  EXPECT_GT(given_up, 100);
}

}  // namespace
}  // namespace dlaunch::internal
