// The only class that knows both the state machines and the outside: it takes events from outside, steps the
// machines, and carries out their actions. It decides nothing itself.
//
// Everything outside comes in through interfaces, so the simulator runs the same class. One thread: the
// loop's.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "agent/control/coordinator.h"
#include "agent/control/member.h"
#include "agent/control/worker_group.h"
#include "agent/model/job_status.h"
#include "agent/model/spawner.h"
#include "agent/model/worker_environment.h"
#include "agent/model/worker_records.h"
#include "agent/model/worker_usage.h"
#include "agent/node/agent_link.h"
#include "agent/node/endpoint_probe.h"
#include "agent/node/node_status.h"
#include "agent/node/pmi_service.h"
#include "agent/node/reporter.h"
#include "store/base/io.h"
#include "store/server/protocol_mux.h"

namespace dlaunch::agent {

class Runner final : public SpawnerHandler, public TimerHandler, public AgentAcceptor {
 public:
  struct Dependencies {  // not owned; all must outlive the Runner
    Clock& clock;
    Timers& timers;
    Network& network;
    ProcessSpawner& spawner;
    Reporter& reporter;
  };
  struct Config {
    JobSpec job;
    NodeSpec node;
    std::string build;  // dlaunch's version
    InheritedEnvironment inherited;
    // The endpoint that this node serves: where its coordinator is, and the store. None: others do.
    std::optional<std::size_t> serves;
    // Opens an empty store for the workers of a new round. It rejects connections from `blocked_hosts`.
    std::function<void(std::uint32_t round, std::set<std::string> blocked_hosts)> open_store;
    std::function<void()> on_ended;
    std::function<void(const Event&)> on_event{};  // for the event log
    std::function<void()> on_phase{};  // the workers of a round begin, stop, or are gone: see status()
    WorkerRecords* records = nullptr;  // the workers' pages, not owned; none: without them
    // What this node's ranks do, with the last lines of this rank; unset: that is not reported.
    std::function<NodeRanks(int rank_with_lines)> node_ranks{};
    // What these workers, in this order, have used and printed; unset: it is not known.
    std::function<WorkerUsage(std::span<const WorkerHere>)> worker_usage{};
    // Looks at these workers from outside. Answers later by on_inspected(); unset: nothing is learned.
    std::function<void(std::uint32_t round, int world_size, std::vector<WorkerHere>)> inspect{};
    // What is known of this node's late ranks, and of the job's stragglers; unset: nothing is shown.
    std::function<void(const Lateness&)> on_lateness{};
    // Where the time of this node's ranks went, when these workers have ended; unset: not reported.
    std::function<TimeSums(const JobStatus& ended)> node_times{};
    PmiWire* pmi = nullptr;                     // not owned; none: PMI is not offered
    std::string secret{};                       // of the job; empty: none
    std::function<std::string()> draw_nonce{};  // nonce_size bytes; only where there is a secret
    // A node at this address has proved the secret. Called again for each after open_store.
    std::function<void(const std::string& host)> on_proved{};
    // If the agents elect their leader: its address, if it is known, and whether it is this agent. `own` is
    // this agent's address.
    struct Leader {
      Address address;
      bool here = false;
    };
    std::function<std::optional<Leader>()> find_leader{};
    Address own{};
    std::int64_t unix_us = 0;      // the wall clock now, in microseconds: fencing tokens begin with it
    bool had_predecessor = false;  // of the coordinator (agent/control/earlier_worlds.h)
  };

  Runner(Dependencies dependencies, Config config);
  ~Runner() override;
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // This node's first step, and its coordinator's.
  void begin();
  void on_signal(int signo);
  // The election's result for this agent, as LeadsUntil. `left_behind`: the text of a JobEnding, if any; an
  // agent of that job ends with its outcome, and does not lead.
  void on_election(std::optional<TimePoint> leads_until, const std::optional<std::string>& left_behind = {});
  // Somebody looks at the job's page: requests what the ranks of all nodes do, for Coordinator::ranks(). It
  // is there at once for this node, and when they have answered for the others. REQUIRES: there is a
  // coordinator.
  void ask_for_ranks(int rank_with_lines);
  // Where the ranks of this node are by PyTorch's records; nothing: they are not known.
  void on_inspected(std::uint32_t round, std::vector<GroupProgress> groups);
  // What is new of the arrivals of this node's ranks in that round. Answered later by on_lateness.
  void report_arrivals(std::uint32_t round, Arrivals arrivals);
  // How this agent, as the leader, has ended the job; none: it has not.
  [[nodiscard]] std::optional<JobEnding> job_ending() const;

  // Set once everything on this node has ended.
  [[nodiscard]] const std::optional<Outcome>& outcome() const { return outcome_; }
  // The last one; without members if the job did not begin.
  [[nodiscard]] const World& world() const { return current_; }
  // The state of this node's part.
  [[nodiscard]] JobStatus status() const;
  [[nodiscard]] const Coordinator* coordinator() const { return coordinator_ ? &*coordinator_ : nullptr; }

  void on_started(ProcKey key, std::int64_t pid) override;
  void on_spawn_failed(ProcKey key, const std::string& why) override;
  void on_exited(ProcKey key, std::int64_t pid, const WorkerExit& exit) override;
  void on_leftovers(int count, const std::string& example) override;
  void on_all_gone() override;
  void on_workers_lost(const std::string& keeper) override;
  void on_spawner_lost(const std::string& why) override;
  void on_timer(TimerId timer) override;
  ConnectionHandler& on_agent_connection(ConnId conn, const Address& peer) override;
  bool end_unauthenticated(TimePoint came_before) override;

 private:
  void post(GroupEvent event);
  void post(MemberEvent event);
  void post(CoordinatorEvent event);
  void work();  // until no event is left
  template <class E>
  void take(E event);  // posts it, then work()
  void step_member(TimePoint now, const MemberEvent& event);

  void act(const GroupAction& action);
  void act(const MemberAction& action);
  void act(const CoordinatorAction& action);
  void report_worker(EventKind kind, int local_rank, std::int64_t pid, std::string text);
  void run_health_check();
  void start_worker(int local_rank);
  void look_at_workers(bool in_full);
  void request_stack(int rank);
  [[nodiscard]] NodeParts parts() const;
  void report_times();
  void inspect_workers();
  [[nodiscard]] std::vector<WorkerHere> workers_here() const;
  [[nodiscard]] std::vector<GroupProgress> group_progress() const;
  void dial(const Address& address);
  void dial(std::size_t endpoint);
  void ask(std::size_t endpoint);
  void disconnect();
  void hear(MemberEvent event);
  void send_to_coordinator(const Message& message);
  void send_to_member(MemberId member, const Message& message);
  void drop_member(MemberId member);
  void arm(TimerId& timer, TimePoint at);
  void finish_if_over();
  [[nodiscard]] std::string draw_nonce() const;

  Dependencies dependencies_;
  Config config_;
  WorkerGroup group_;
  Member member_;
  std::optional<PmiService> pmi_;
  std::optional<Coordinator> coordinator_;
  World current_;  // the world of the workers being started
  TimePoint began_;
  TimePoint round_began_;
  // As last reported by on_phase().
  struct Phase {
    WorkerGroup::State state = WorkerGroup::State::idle;
    std::uint32_t round = 0;
    bool done = false;
    bool operator==(const Phase&) const = default;
  } phase_;
  bool round_done_ = false;  // all its workers here have returned 0
  // Their progress when the first of them failed, before any was stopped because of that.
  std::optional<std::vector<GroupProgress>> at_failure_;

  // An event of the member's connection with this number.
  struct Heard {
    std::uint64_t link = 0;
    MemberEvent event;
  };
  std::deque<std::variant<GroupEvent, MemberEvent, CoordinatorEvent, Heard>> events_;
  bool working_ = false;
  TimerId stop_timer_;
  TimerId member_timer_;
  TimerId coordinator_timer_;
  std::unique_ptr<CoordinatorLink> link_;
  std::unique_ptr<EndpointProbe> probe_;
  std::uint64_t link_number_ = 0;  // of the current connection; events of earlier ones are dropped
  bool link_is_local_ = false;     // to the coordinator in this process
  bool follows_another_ = false;   // as last reported to the coordinator
  std::map<MemberId, std::unique_ptr<MemberLink>> member_links_;
  MemberId next_member_ = 1;
  bool job_was_over_ = false;  // when this agent was elected: it does not lead
  std::optional<Outcome> member_outcome_;
  bool coordinator_ended_ = false;
  std::optional<Outcome> outcome_;
};

}  // namespace dlaunch::agent
