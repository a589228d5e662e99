#include "agent/election/election.h"

#include <algorithm>
#include <utility>

#include "store/base/overloaded.h"

namespace dlaunch::agent {

ElectionActions Election::begin(TimePoint now) {
  ElectionActions out;
  ask_for_lease(now, out);
  return out;
}

ElectionActions Election::resign() {
  ElectionActions out;
  if (lease_ != 0) out.emplace_back(RevokeLease{std::exchange(lease_, 0)});
  if (state_ == State::leading) out.emplace_back(Deposed{});
  state_ = State::idle;
  return out;
}

ElectionActions Election::step(TimePoint now, const ElectionEvent& event) {
  ElectionActions out;
  std::visit(Overloaded{
                 [&](const LeaseGranted& e) { on_granted(e, out); },
                 [&](const CampaignEnded& e) { on_campaign(now, e, out); },
                 [&](const LeaseRenewed& e) { on_renewed(now, e, out); },
                 [&](const KeyChanged& e) { on_key(now, e, out); },
                 [&](const RequestFailed& e) { on_failure(now, e.why, out); },
                 [&](const ElectionTimer&) { on_timer(now, out); },
             },
             event);
  return out;
}

void Election::ask_for_lease(TimePoint now, ElectionActions& out) {
  state_ = State::granting;
  asked_ = now;
  out.emplace_back(GrantLease{});
}

void Election::on_granted(const LeaseGranted& granted, ElectionActions& out) {
  if (state_ != State::granting) return;
  lease_ = granted.lease;
  state_ = State::campaigning;
  out.emplace_back(Campaign{lease_});
}

void Election::on_campaign(TimePoint now, const CampaignEnded& ended, ElectionActions& out) {
  if (state_ != State::campaigning) return;
  pause_ = first_pause;
  last_trouble_.clear();
  if (ended.won) {
    state_ = State::leading;
    lease_until_ = asked_ + ttl_;
    renewing_ = false;
    know(value_, out);
    out.emplace_back(Elected{lease_until_, ended.left_behind});
    out.emplace_back(ArmElectionTimer{now + ttl_ / 4});
    return;
  }
  out.emplace_back(RevokeLease{std::exchange(lease_, 0)});
  state_ = State::following;
  know(ended.value, out);
  out.emplace_back(WatchKey{ended.revision + 1});
}

void Election::on_renewed(TimePoint now, const LeaseRenewed& renewed, ElectionActions& out) {
  if (state_ != State::leading) return;
  renewing_ = false;
  if (!renewed.alive) return depose(now, "its lease has expired", out);
  last_trouble_.clear();
  lease_until_ = asked_ + ttl_;
  out.emplace_back(Elected{lease_until_});
}

void Election::on_key(TimePoint now, const KeyChanged& changed, ElectionActions& out) {
  if (state_ != State::following) return;
  know(changed.value, out);
  if (!changed.value) ask_for_lease(now, out);
}

void Election::on_timer(TimePoint now, ElectionActions& out) {
  if (state_ == State::leading) return renew(now, out);
  if (state_ == State::pausing) ask_for_lease(now, out);
}

void Election::renew(TimePoint now, ElectionActions& out) {
  if (now >= lease_until_) return depose(now, "its lease could not be renewed in time", out);
  out.emplace_back(ArmElectionTimer{std::min(now + ttl_ / 4, lease_until_)});
  if (std::exchange(renewing_, true)) return;
  asked_ = now;
  out.emplace_back(RenewLeaseOf{lease_});
}

void Election::on_failure(TimePoint now, const std::string& why, ElectionActions& out) {
  if (why != last_trouble_) out.emplace_back(LogMessage{Severity::warning, "the election at etcd: " + why});
  last_trouble_ = why;
  if (state_ == State::idle || state_ == State::pausing) return;
  if (state_ == State::leading) {
    renewing_ = false;  // the next tick requests it again, while the lease lasts
    return;
  }
  state_ = State::pausing;
  out.emplace_back(ArmElectionTimer{now + pause_});
  pause_ = std::min(2 * pause_, longest_pause);
}

void Election::depose(TimePoint now, const std::string& why, ElectionActions& out) {
  lease_ = 0;
  out.emplace_back(LogMessage{Severity::warning, "this node is no longer the leader: " + why});
  out.emplace_back(Deposed{});
  know(std::nullopt, out);
  ask_for_lease(now, out);
}

void Election::know(std::optional<std::string> leader, ElectionActions& out) {
  if (leader == leader_) return;
  leader_ = std::move(leader);
  out.emplace_back(LeaderIs{leader_});
}

}  // namespace dlaunch::agent
