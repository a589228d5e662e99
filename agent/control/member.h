// One node's side of the agents' protocol: a pure state machine.
//
//   connecting --link--> joined --NewWorld--> working --End--> leaving --workers gone--> ended
//       ^                                       |
//       +---- the coordinator is lost, and -----+
//             another may lead, or it comes back
//
// It decides when this node's workers start and stop, and with what the agent ends.
//
// If the job has several endpoints, agent/control/endpoint_search.h decides which one the node tries next.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/control/coordinator_contact.h"
#include "agent/control/endpoint_search.h"
#include "agent/control/health_gate.h"
#include "agent/control/job_ending.h"
#include "agent/control/leader_clock.h"
#include "agent/control/loss.h"
#include "agent/control/messages.h"
#include "agent/control/preempt_notice.h"
#include "agent/control/progress_reports.h"
#include "agent/control/waiting.h"
#include "agent/control/worker_group.h"
#include "agent/control/worker_lease.h"
#include "agent/model/log_message.h"
#include "agent/model/suspension_detector.h"

namespace dlaunch::agent {

// --- events ---

struct LinkUp {};
struct LinkDown {
  Loss loss;
};
struct FromCoordinator {
  Message message;
};
struct SignalCame {
  int signo = 0;
};
// Answers ArmMemberTimer.
struct MemberTimer {};
// The keeper process is gone, and with it the workers.
struct KeeperLost {
  std::string why;
};

// Answers RunHealthCheck.
struct HealthChecked {
  std::string why_not;  // why the node is not healthy; empty: it is
};

// The job has ended while this node was away.
struct JobAlreadyEnded {
  JobEnding ending;
};

// Answers InspectWorkers.
struct WorkersInspected {
  Inspected report;
};

// WorkersSeen answers LookAtWorkers, and EndpointProbed answers ProbeEndpoint. PmiEnter: what this node's MPI
// program reports; PmiRelease, an action, is the answer to it. So is LatenessReport to ArrivalsReport.
// TimesReport: before RoundDone and RoundStopped.
using MemberEvent =
    std::variant<HealthChecked, EndpointProbed, LinkUp, LinkDown, FromCoordinator, SignalCame, MemberTimer,
                 KeeperLost, RoundFailed, RoundDone, RoundStopped, RoundStuck, WorkersSeen, WorkersInspected,
                 JobAlreadyEnded, PmiEnter, TimesReport, ArrivalsReport>;

// --- actions ---

// Connect to the endpoint of this number. Answered by LinkUp or LinkDown.
struct Dial {
  std::size_t endpoint = 0;
  bool operator==(const Dial&) const = default;
};
// Closes the connection; it is not answered.
struct Disconnect {
  bool operator==(const Disconnect&) const = default;
};
// Ask the coordinator at the endpoint of this number whether it leads, over a separate connection. Answered
// by EndpointProbed; replaces the probe before.
struct ProbeEndpoint {
  std::size_t endpoint = 0;
  bool operator==(const ProbeEndpoint&) const = default;
};
struct ToCoordinator {
  Message message;
  bool operator==(const ToCoordinator&) const = default;
};
struct ToGroup {
  GroupEvent event;
};
struct ForwardSignal {
  int signo = 0;
  bool operator==(const ForwardSignal&) const = default;
};
struct RunHealthCheck {
  bool operator==(const RunHealthCheck&) const = default;
};
// It took too long. HealthChecked follows.
struct KillHealthCheck {
  bool operator==(const KillHealthCheck&) const = default;
};
// The workers may live until then without another renewal: if the agent is frozen, its workers end before the
// other nodes go on without it. TimePoint::max(): for ever.
struct RenewLease {
  TimePoint until;
  bool operator==(const RenewLease&) const = default;
};
// Read the workers' pages.
struct LookAtWorkers {
  bool in_full = false;  // also their progress in collectives
  bool operator==(const LookAtWorkers&) const = default;
};
// Request the stack of a worker of this node, for one of the next LookAtWorkers.
struct RequestStack {
  int rank = 0;  // in the job
  bool operator==(const RequestStack&) const = default;
};
// Ask the workers where they are, and look at their stacks. Answered by WorkersInspected.
struct InspectWorkers {
  bool operator==(const InspectWorkers&) const = default;
};
// Report to the coordinator what the workers do: RanksReport.
struct ReportRanks {
  int rank_with_lines = -1;
  bool operator==(const ReportRanks&) const = default;
};
// Replaces the time requested before.
struct ArmMemberTimer {
  TimePoint at;
  bool operator==(const ArmMemberTimer&) const = default;
};
struct MemberEnded {
  Outcome outcome;
  bool operator==(const MemberEnded&) const = default;
};

using MemberAction =
    std::variant<RunHealthCheck, KillHealthCheck, Dial, ProbeEndpoint, Disconnect, ToCoordinator, ToGroup,
                 ForwardSignal, RenewLease, LookAtWorkers, RequestStack, InspectWorkers, ReportRanks,
                 ArmMemberTimer, MemberEnded, PmiRelease, LatenessReport, LogMessage>;
using MemberActions = std::vector<MemberAction>;

class Member {
 public:
  enum class State { connecting, joined, working, leaving, ended };

  static constexpr Duration first_report = Waiting::first_report;
  static constexpr Duration next_report = Waiting::next_report;
  // How long a departing node waits for the coordinator's End.
  static constexpr Duration leave_timeout = std::chrono::seconds(10);
  static constexpr Duration probe_timeout = EndpointSearch::probe_timeout;
  static constexpr Duration probe_pause = EndpointSearch::probe_pause;

  // For how long one endpoint is tried; the member decides about the next. Shorter if there are several.
  [[nodiscard]] static Duration connect_attempt(const JobSpec& job) {
    return std::min<Duration>(std::chrono::seconds(job.may_move() ? 2 : 10), job.join_timeout);
  }

  Member(JobSpec job, NodeSpec node, std::string build, TimePoint now);

  MemberActions begin();
  MemberActions step(TimePoint now, const MemberEvent& event);

  [[nodiscard]] State state() const { return state_; }
  // It is connected to a coordinator that leads.
  [[nodiscard]] bool has_leader() const { return contact_.leads(); }
  // This node was in a world of the job with this ending.
  [[nodiscard]] bool was_in(const JobEnding& job) const {
    return joined_once_ && job.fencing >= world_.fencing;
  }
  // Why a round was stopped last; empty: none was.
  [[nodiscard]] const std::string& last_failure() const { return last_failure_; }
  // How long that had lasted before it was noticed.
  [[nodiscard]] Duration unnoticed() const { return unnoticed_; }
  // None: without a leader, or without heartbeats nothing is known of its clock.
  [[nodiscard]] std::optional<SharedClock> shared_clock(TimePoint now) const { return clock_.read(now); }
  // Its health check is running.
  [[nodiscard]] bool is_checking() const { return health_.is_running(); }
  // What the coordinator waits for, by its last notice; empty: a world has come since.
  [[nodiscard]] const std::string& last_notice() const { return last_notice_; }
  // While connecting: why the last attempt failed.
  [[nodiscard]] const std::string& last_refusal() const { return last_refusal_; }

 private:
  static constexpr const char* no_leader =
      "no endpoint that answers leads; a majority of the nodes must join at one endpoint";

  void on_link_up(TimePoint now, MemberActions& out);
  void on_link_down(TimePoint now, const Loss& loss, MemberActions& out);
  void on_message(TimePoint now, const Message& message, MemberActions& out);
  void on_welcome(TimePoint now, const Welcome& welcome, MemberActions& out);
  static void ignore_unexpected(MemberActions& out);
  void on_refused(TimePoint now, const Refused& refused, MemberActions& out);
  void on_new_world(TimePoint now, const NewWorld& announced, MemberActions& out);
  void on_stop_round(const StopRound& stop, MemberActions& out);
  void on_keeper_lost(const KeeperLost& keeper, MemberActions& out);
  void on_round_failed(TimePoint now, const RoundFailed& failed, MemberActions& out);
  void on_round_done(const RoundDone& done, MemberActions& out);
  void on_round_stopped(TimePoint now, const RoundStopped& stopped, MemberActions& out);
  void on_signal(TimePoint now, int signo, MemberActions& out);
  void log_how_workers_end(int signo, MemberActions& out) const;
  void give_notice(TimePoint now, MemberActions& out);
  void on_preempt(const Preempt& preempt, MemberActions& out);
  void on_timer(TimePoint now, MemberActions& out);
  void check_health(TimePoint now, bool first, MemberActions& out);
  void on_health_checked(TimePoint now, const std::string& why_not, MemberActions& out);
  void on_stuck(const Failure& failure, MemberActions& out);
  void on_round_over(const Message& said, MemberActions& out);
  void look_at_the_end(MemberActions& out);
  void on_pmi_enter(const PmiEnter& enter, MemberActions& out) const;
  void on_arrivals(const ArrivalsReport& report, MemberActions& out) const;
  void on_workers_seen(TimePoint now, const WorkersSeen& seen, MemberActions& out);
  void on_workers_inspected(const Inspected& report, MemberActions& out) const;
  void on_times(const TimesReport& report, MemberActions& out);
  void end_by_signal(MemberActions& out);
  void enforce_fencing(TimePoint now, MemberActions& out);
  void give_up(TimePoint now, MemberActions& out);
  void take_grant(TimePoint now, const Grant& grant, MemberActions& out);
  void renew_lease(MemberActions& out);
  void rearm(TimePoint now, MemberActions& out);

  void dial(TimePoint now, std::size_t endpoint, MemberActions& out);
  void try_next_endpoint(TimePoint now, MemberActions& out);
  void on_endpoint_probed(TimePoint now, const EndpointProbed& answer, MemberActions& out);
  // It waits at an endpoint that does not lead, and another endpoint may lead.
  [[nodiscard]] bool may_probe() const {
    return state_ == State::joined && search_.is_parked() && !contact_.leads() && !job_.elected &&
           search_.endpoints() > 1;
  }
  void restart_search(TimePoint now, const Loss& loss, MemberActions& out);
  void report_waiting(TimePoint now, const std::string& why, MemberActions& out);
  [[nodiscard]] Join join(TimePoint now) const;
  [[nodiscard]] bool may_find_another() const { return job_.elastic() || job_.may_move(); }
  [[nodiscard]] bool may_be_forgotten() const;
  [[nodiscard]] std::string describe_disconnect(bool was_dlaunch, const Loss& loss) const;
  [[nodiscard]] std::string describe_coordinator() const;
  [[nodiscard]] std::string describe_endpoints() const;

  void stop_group(int signo, MemberActions& out);
  void end_with(const Outcome& outcome, MemberActions& out);
  void on_job_already_ended(const JobEnding& job, MemberActions& out);
  void fail_with(Failure cause, MemberActions& out);
  void end_if_over(MemberActions& out);
  [[nodiscard]] Failure lost_coordinator(TimePoint now, const Loss& loss) const;
  [[nodiscard]] Failure failure_here(FailureKind kind, std::string why) const;

  JobSpec job_;
  NodeSpec node_;
  std::string build_;
  State state_ = State::connecting;
  Waiting waiting_;  // for a coordinator that starts the job
  CoordinatorContact contact_;
  LeaderClock clock_;
  WorkerLease lease_;
  EndpointSearch search_;
  HealthGate health_;
  PreemptNotice notice_;
  ProgressReports reports_;
  std::optional<TimePoint> armed_;
  SuspensionDetector suspension_;

  bool round_active_ = false;  // workers of `round_` are running or being stopped
  bool joined_once_ = false;   // a world
  std::uint32_t round_ = 0;
  World world_;                // that round's
  bool led_by_spare_ = false;  // it was: its leader had no workers
  std::uint64_t fencing_ = 0;  // the highest token of any leader (agent/model/fencing.h)
  TimePoint world_came_;
  bool all_returned_0_ = false;       // the workers of the last round, even if they were told to stop
  std::optional<TimesReport> times_;  // the last one; the next leader gets it, too

  std::optional<TimePoint> last_word_by_;  // until then the coordinator may answer our Leave
  int stop_signal_ = 0;                    // the signal that was sent to us and means: stop
  std::optional<Outcome> outcome_;         // decided, but workers still run
  std::string last_failure_;
  Duration unnoticed_{};
  std::string last_notice_;
  std::string last_refusal_;  // why the last attempt to connect failed
};

}  // namespace dlaunch::agent
