#include "agent/election/election.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class ElectionTest : public ::testing::Test {
 protected:
  void begin() { last_ = election_.begin(now_); }
  void step(const ElectionEvent& event) { last_ = election_.step(now_, event); }
  void win() {
    begin();
    step(LeaseGranted{7});
    step(CampaignEnded{true, "", 3});
  }
  template <class A>
  const A* got() const {
    for (const auto& action : last_) {
      if (const auto* found = std::get_if<A>(&action)) return found;
    }
    return nullptr;
  }

  TimePoint now_{seconds(100)};
  Election election_{"me", seconds(8)};
  ElectionActions last_;
};

TEST_F(ElectionTest, WinnerLeadsForAsLongAsTheLease) {
  begin();
  EXPECT_TRUE(got<GrantLease>());
  now_ += milliseconds(100);
  step(LeaseGranted{7});
  EXPECT_EQ(got<Campaign>()->lease, 7);
  step(CampaignEnded{true, "", 3});
  EXPECT_EQ(got<Elected>()->until, TimePoint(seconds(108))) << "from when it was asked for";
  EXPECT_EQ(got<LeaderIs>()->value, "me");
}

TEST_F(ElectionTest, LoserFollowsAndRetriesWhenTheKeyIsGone) {
  begin();
  step(LeaseGranted{7});
  step(CampaignEnded{false, "other", 3});
  EXPECT_EQ(got<LeaderIs>()->value, "other");
  EXPECT_EQ(got<RevokeLease>()->lease, 7);
  EXPECT_EQ(got<WatchKey>()->since_revision, 4);
  step(KeyChanged{"third"});
  EXPECT_EQ(got<LeaderIs>()->value, "third");
  step(KeyChanged{std::nullopt});
  EXPECT_FALSE(got<LeaderIs>()->value);
  EXPECT_TRUE(got<GrantLease>());
}

TEST_F(ElectionTest, TheLeaseIsRenewedAndCountedFromTheQuestion) {
  win();
  now_ += seconds(2);
  step(ElectionTimer{});
  EXPECT_TRUE(got<RenewLeaseOf>());
  now_ += seconds(1);
  step(LeaseRenewed{true});
  EXPECT_EQ(got<Elected>()->until, TimePoint(seconds(110)));
}

TEST_F(ElectionTest, FailedRenewalIsRetriedWhileTheLeaseLasts) {
  win();
  for (int i = 0; i < 3; ++i) {
    now_ += seconds(2);
    step(ElectionTimer{});
    EXPECT_TRUE(got<RenewLeaseOf>());
    step(RequestFailed{"connection refused"});
    EXPECT_EQ(got<LogMessage>() != nullptr, i == 0) << "it is said once";
    EXPECT_FALSE(got<Deposed>());
  }
  now_ += seconds(2);
  step(ElectionTimer{});
  EXPECT_TRUE(got<Deposed>());
  EXPECT_TRUE(got<GrantLease>());
}

TEST_F(ElectionTest, ALeaseThatIsOverDeposesAtOnce) {
  win();
  now_ += seconds(2);
  step(ElectionTimer{});
  step(LeaseRenewed{false});
  EXPECT_TRUE(got<Deposed>());
}

TEST_F(ElectionTest, ResigningLeaderReleasesTheKey) {
  win();
  last_ = election_.resign();
  EXPECT_EQ(got<RevokeLease>()->lease, 7);
  EXPECT_TRUE(got<Deposed>());
}

TEST_F(ElectionTest, PausesGrowIfEtcdDoesNotAnswer) {
  begin();
  std::vector<Duration> pauses;
  for (int i = 0; i < 6; ++i) {
    step(RequestFailed{"connection refused"});
    pauses.push_back(got<ArmElectionTimer>()->at - now_);
    now_ = got<ArmElectionTimer>()->at;
    step(ElectionTimer{});
  }
  EXPECT_EQ(pauses.front(), Election::first_pause);
  EXPECT_EQ(pauses.back(), Election::longest_pause);
}

// A store of leases as etcd is one, with requests that are late or lost: whatever happens, no two lead at
// once.
TEST(ElectionSwarm, NoTwoLeadAtOnce) {
  constexpr Duration ttl = seconds(5);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](int least, int most) {
      return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
    };
    struct Pending {
      TimePoint at;
      std::size_t who;
      std::uint64_t request;  // of that one; the newest counts
      ElectionEvent event;
    };
    struct Voter {
      std::unique_ptr<Election> election;
      std::optional<TimePoint> leads_until;
      TimePoint timer = TimePoint::max();
      std::uint64_t request = 0;
      bool watches = false;
    };
    TimePoint now{seconds(1000)};
    std::vector<Voter> voters(4);
    std::vector<Pending> wire;
    std::map<LeaseId, TimePoint> leases;  // until
    std::optional<std::pair<LeaseId, std::string>> key;
    LeaseId next_lease = 1;
    std::size_t elections = 0;

    std::function<void(std::size_t, const ElectionActions&)> act;
    const auto answer = [&](std::size_t who, ElectionEvent event) {
      if (draw(0, 9) == 0) event = RequestFailed{"lost"};
      wire.push_back({now + milliseconds(draw(1, 1500)), who, voters[who].request, std::move(event)});
    };
    act = [&](std::size_t who, const ElectionActions& actions) {
      Voter& voter = voters[who];
      for (const ElectionAction& action : actions) {
        const bool asks =
            std::holds_alternative<GrantLease>(action) || std::holds_alternative<Campaign>(action) ||
            std::holds_alternative<RenewLeaseOf>(action) || std::holds_alternative<WatchKey>(action);
        if (asks) ++voter.request;
        if (std::holds_alternative<GrantLease>(action)) {
          voter.watches = false;
          leases[next_lease] = now + ttl;
          answer(who, LeaseGranted{next_lease++});
        } else if (const auto* campaigns = std::get_if<Campaign>(&action)) {
          if (!key && leases.contains(campaigns->lease)) {
            key = {campaigns->lease, std::to_string(who)};
            answer(who, CampaignEnded{true, "", 1});
          } else if (key) {
            answer(who, CampaignEnded{false, key->second, 1});
          } else {
            answer(who, RequestFailed{"requested lease not found"});
          }
        } else if (const auto* renews = std::get_if<RenewLeaseOf>(&action)) {
          const bool alive = leases.contains(renews->lease);
          if (alive) leases[renews->lease] = now + ttl;
          answer(who, LeaseRenewed{alive});
        } else if (std::holds_alternative<WatchKey>(action)) {
          voter.watches = true;
          if (!key) answer(who, KeyChanged{});
        } else if (const auto* revokes = std::get_if<RevokeLease>(&action)) {
          leases.erase(revokes->lease);
        } else if (const auto* arms = std::get_if<ArmElectionTimer>(&action)) {
          voter.timer = arms->at;
        } else if (const auto* elected = std::get_if<Elected>(&action)) {
          elections += voter.leads_until ? 0U : 1U;
          voter.leads_until = elected->until;
        } else if (std::holds_alternative<Deposed>(action)) {
          voter.leads_until.reset();
        }
      }
    };
    for (std::size_t i = 0; i < voters.size(); ++i) {
      voters[i].election = std::make_unique<Election>(std::to_string(i), ttl);
      act(i, voters[i].election->begin(now));
    }
    for (int tick = 0; tick < 6000; ++tick) {
      now += milliseconds(20);
      for (auto lease = leases.begin(); lease != leases.end();)
        lease = lease->second <= now ? leases.erase(lease) : std::next(lease);
      if (key && !leases.contains(key->first)) {
        key.reset();
        for (std::size_t i = 0; i < voters.size(); ++i) {
          if (voters[i].watches) answer(i, KeyChanged{});
        }
      }
      for (std::size_t i = 0; i < voters.size(); ++i) {
        if (voters[i].timer <= now && draw(0, 3) == 0) {  // late, as of one that sleeps
          voters[i].timer = TimePoint::max();
          act(i, voters[i].election->step(now, ElectionTimer{}));
        }
      }
      for (std::size_t i = 0; i < wire.size();) {
        if (wire[i].at > now) {
          ++i;
          continue;
        }
        const Pending pending = wire[i];
        wire.erase(wire.begin() + static_cast<std::ptrdiff_t>(i));
        if (pending.request == voters[pending.who].request)
          act(pending.who, voters[pending.who].election->step(now, pending.event));
      }
      // What counts is until when a leader believes in its lease.
      const auto leading = std::count_if(voters.begin(), voters.end(), [&](const Voter& v) {
        return v.leads_until && now < *v.leads_until;
      });
      ASSERT_LE(leading, 1) << "seed " << seed;
    }
    EXPECT_GT(elections, 0U) << "seed " << seed;
  }
}

}  // namespace
}  // namespace dlaunch::agent
