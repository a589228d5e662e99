#include "agent/election/election.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

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

// Four nodes and a store of leases as etcd is one, with requests that are late or lost.
class ElectionOverEtcd {
 public:
  explicit ElectionOverEtcd(std::uint64_t seed) : random_(seed) {
    for (std::size_t i = 0; i < voters_.size(); ++i) {
      voters_[i].election = std::make_unique<Election>(std::to_string(i), ttl);
      act(i, voters_[i].election->begin(now_));
    }
  }

  void tick() {
    now_ += milliseconds(20);
    expire_leases();
    for (std::size_t i = 0; i < voters_.size(); ++i) {
      if (voters_[i].timer <= now_ && draw(0, 3) == 0) {  // late, as of one that sleeps
        voters_[i].timer = TimePoint::max();
        act(i, voters_[i].election->step(now_, ElectionTimer{}));
      }
    }
    deliver_answers();
  }
  // A leader counts until the moment until which it believes in its lease.
  [[nodiscard]] std::ptrdiff_t leaders() const {
    return std::count_if(voters_.begin(), voters_.end(),
                         [&](const Voter& voter) { return voter.leads_until && now_ < *voter.leads_until; });
  }
  [[nodiscard]] std::size_t elections() const { return elections_; }

 private:
  static constexpr Duration ttl = seconds(5);
  struct Pending {
    TimePoint at;
    std::size_t voter;
    std::uint64_t request;  // of that voter; the newest counts
    ElectionEvent event;
  };
  struct Voter {
    std::unique_ptr<Election> election;
    std::optional<TimePoint> leads_until;
    TimePoint timer = TimePoint::max();
    std::uint64_t request = 0;
    bool watches = false;
  };

  int draw(int least, int most) {
    return least + static_cast<int>(random_() % static_cast<unsigned>(most - least + 1));
  }
  void answer(std::size_t voter, ElectionEvent event) {
    if (draw(0, 9) == 0) event = RequestFailed{"lost"};
    wire_.push_back({now_ + milliseconds(draw(1, 1500)), voter, voters_[voter].request, std::move(event)});
  }
  void expire_leases() {
    std::erase_if(leases_, [&](const auto& lease) { return lease.second <= now_; });
    if (!key_ || leases_.contains(key_->first)) return;
    key_.reset();
    for (std::size_t i = 0; i < voters_.size(); ++i) {
      if (voters_[i].watches) answer(i, KeyChanged{});
    }
  }
  void deliver_answers() {
    for (std::size_t i = 0; i < wire_.size();) {
      if (wire_[i].at > now_) {
        ++i;
        continue;
      }
      const Pending pending = wire_[i];
      wire_.erase(wire_.begin() + static_cast<std::ptrdiff_t>(i));
      Voter& voter = voters_[pending.voter];
      if (pending.request == voter.request) act(pending.voter, voter.election->step(now_, pending.event));
    }
  }

  void act(std::size_t voter, const ElectionActions& actions) {
    for (const ElectionAction& action : actions)
      std::visit([&](const auto& what) { carry_out(voter, what); }, action);
  }
  void carry_out(std::size_t voter, const GrantLease&) {
    ++voters_[voter].request;
    voters_[voter].watches = false;
    leases_[next_lease_] = now_ + ttl;
    answer(voter, LeaseGranted{next_lease_++});
  }
  void carry_out(std::size_t voter, const Campaign& campaign) {
    ++voters_[voter].request;
    if (!key_ && leases_.contains(campaign.lease)) {
      key_ = {campaign.lease, std::to_string(voter)};
      answer(voter, CampaignEnded{true, "", 1});
    } else if (key_) {
      answer(voter, CampaignEnded{false, key_->second, 1});
    } else {
      answer(voter, RequestFailed{"requested lease not found"});
    }
  }
  void carry_out(std::size_t voter, const RenewLeaseOf& renewal) {
    ++voters_[voter].request;
    const bool alive = leases_.contains(renewal.lease);
    if (alive) leases_[renewal.lease] = now_ + ttl;
    answer(voter, LeaseRenewed{alive});
  }
  void carry_out(std::size_t voter, const WatchKey&) {
    ++voters_[voter].request;
    voters_[voter].watches = true;
    if (!key_) answer(voter, KeyChanged{});
  }
  void carry_out(std::size_t, const RevokeLease& revoked) { leases_.erase(revoked.lease); }
  void carry_out(std::size_t voter, const ArmElectionTimer& timer) { voters_[voter].timer = timer.at; }
  void carry_out(std::size_t voter, const Elected& elected) {
    elections_ += voters_[voter].leads_until ? 0U : 1U;
    voters_[voter].leads_until = elected.until;
  }
  void carry_out(std::size_t voter, const Deposed&) { voters_[voter].leads_until.reset(); }
  void carry_out(std::size_t, const LeaderIs&) {}
  void carry_out(std::size_t, const LogMessage&) {}

  std::mt19937_64 random_;
  TimePoint now_{seconds(1000)};
  std::vector<Voter> voters_ = std::vector<Voter>(4);
  std::vector<Pending> wire_;
  std::map<LeaseId, TimePoint> leases_;  // until
  std::optional<std::pair<LeaseId, std::string>> key_;
  LeaseId next_lease_ = 1;
  std::size_t elections_ = 0;
};

TEST(ElectionSwarm, NoTwoLeadAtOnce) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    ElectionOverEtcd nodes(seed);
    for (int tick = 0; tick < 6000; ++tick) {
      nodes.tick();
      ASSERT_LE(nodes.leaders(), 1) << "seed " << seed;
    }
    EXPECT_GT(nodes.elections(), 0U) << "seed " << seed;
  }
}

}  // namespace
}  // namespace dlaunch::agent
