// One agent's part in the election of a job's leader through a store of leases (etcd): a pure state machine.
//
//   idle --begin--> granting --a lease--> campaigning --the key was free--> leading
//                      ^                       |                              |
//                      |                       +--another has it---> following|
//                      +------- the key is gone, a request failed, or the lease is over
//
// The agent that holds the key leads; the key lives for as long as its lease is renewed. The leader counts
// its lease from the time of its request, so it has stopped leading before another can begin.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/model/log_message.h"
#include "store/base/time.h"

namespace dlaunch::agent {

using LeaseId = std::int64_t;

// --- events ---

struct LeaseGranted {
  LeaseId lease = 0;
};
// `won`: this agent has the key now. Otherwise the key has this value, since this revision of the store.
struct CampaignEnded {
  bool won = false;
  std::string value;
  std::int64_t revision = 0;
  std::optional<std::string> left_behind = {};  // by an earlier leader, if won
};
// `alive`: false if the lease has expired.
struct LeaseRenewed {
  bool alive = false;
};
// The key has this value now; none: the key is gone.
struct KeyChanged {
  std::optional<std::string> value;
};
// The last request, or the watch, failed.
struct RequestFailed {
  std::string why;
};
struct ElectionTimer {};

using ElectionEvent =
    std::variant<LeaseGranted, CampaignEnded, LeaseRenewed, KeyChanged, RequestFailed, ElectionTimer>;

// --- actions ---

// Requests: one at a time, answered by the event named. A new one replaces the pending one.
struct GrantLease {  // -> LeaseGranted
  bool operator==(const GrantLease&) const = default;
};
struct Campaign {  // -> CampaignEnded
  LeaseId lease = 0;
  bool operator==(const Campaign&) const = default;
};
struct RenewLeaseOf {  // -> LeaseRenewed
  LeaseId lease = 0;
  bool operator==(const RenewLeaseOf&) const = default;
};
struct WatchKey {  // -> KeyChanged, again and again
  std::int64_t since_revision = 0;
  bool operator==(const WatchKey&) const = default;
};
// No event answers it, and the election does not wait for it.
struct RevokeLease {
  LeaseId lease = 0;
  bool operator==(const RevokeLease&) const = default;
};
struct ArmElectionTimer {
  TimePoint at;
  bool operator==(const ArmElectionTimer&) const = default;
};
// This agent leads until then, unless another Elected extends it.
struct Elected {
  TimePoint until;
  std::optional<std::string> left_behind = {};  // by an earlier leader; with the first Elected of a lead
  bool operator==(const Elected&) const = default;
};
struct Deposed {
  bool operator==(const Deposed&) const = default;
};
// The current leader; none: no leader is known.
struct LeaderIs {
  std::optional<std::string> value;
  bool operator==(const LeaderIs&) const = default;
};

using ElectionAction = std::variant<GrantLease, Campaign, RenewLeaseOf, WatchKey, RevokeLease,
                                    ArmElectionTimer, Elected, Deposed, LeaderIs, LogMessage>;
using ElectionActions = std::vector<ElectionAction>;

class Election {
 public:
  enum class State { idle, granting, campaigning, leading, following, pausing };

  static constexpr Duration first_pause = std::chrono::milliseconds(100);
  static constexpr Duration longest_pause = std::chrono::seconds(2);

  // `value`: what the key holds while this agent leads.
  Election(std::string value, Duration ttl) : value_(std::move(value)), ttl_(ttl) {}

  ElectionActions begin(TimePoint now);
  ElectionActions step(TimePoint now, const ElectionEvent& event);
  // Gives leadership up, so that another can lead at once.
  ElectionActions resign();

  [[nodiscard]] State state() const { return state_; }

 private:
  void ask_for_lease(TimePoint now, ElectionActions& out);
  void on_granted(const LeaseGranted& granted, ElectionActions& out);
  void on_campaign(TimePoint now, const CampaignEnded& ended, ElectionActions& out);
  void on_renewed(TimePoint now, const LeaseRenewed& renewed, ElectionActions& out);
  void on_key(TimePoint now, const KeyChanged& changed, ElectionActions& out);
  void on_failure(TimePoint now, const std::string& why, ElectionActions& out);
  void on_timer(TimePoint now, ElectionActions& out);
  void renew(TimePoint now, ElectionActions& out);
  void depose(TimePoint now, const std::string& why, ElectionActions& out);
  void know(std::optional<std::string> leader, ElectionActions& out);

  std::string value_;
  Duration ttl_;
  State state_ = State::idle;
  LeaseId lease_ = 0;      // 0: none
  TimePoint asked_;        // when the lease, or its renewal, was requested
  TimePoint lease_until_;  // while leading
  bool renewing_ = false;  // a renewal is requested and not answered yet
  Duration pause_ = first_pause;
  std::string last_trouble_;
  std::optional<std::string> leader_;
};

}  // namespace dlaunch::agent
