// The values the agents talk about: what was asked for (JobSpec, NodeSpec), what is running (World), what
// went wrong (Failure) and how it ended (Outcome). All are plain, printable and comparable.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/model/exit_status.h"
#include "agent/model/stop_grace.h"
#include "store/base/address.h"
#include "store/base/time.h"

namespace dlaunch::agent {

// One agent's process, drawn at random when it starts: an agent that was started anew is another one.
using AgentId = std::uint64_t;

// When a failure is followed by a restart, besides JobSpec::max_restarts.
struct RestartPolicy {
  int burst = 0;  // at most so many within `window`; 0: no limit
  Duration window{};
  Duration first_delay{};  // after two quick failures in a row; then twice as long each time; 0: none
  Duration longest_delay = std::chrono::seconds(60);
  Duration startup_grace{};        // a failure so soon after the job's start is final; 0: none
  int exclude_after = 0;           // a host that was the cause so often is left out; 0: never
  std::vector<int> final_codes{};  // exit codes of workers that no restart heals

  bool operator==(const RestartPolicy&) const = default;
};

// What all nodes of a job must have been told alike.
struct JobSpec {
  std::string id;
  int nnodes = 1;     // the most that run at once
  int min_nodes = 0;  // the fewest that run at all; 0: nnodes
  int spares = 0;     // nodes beyond nnodes that are expected to wait for a place
  int max_restarts = 0;
  RestartPolicy policy{};
  bool replaces = false;             // a lost node is waited for (join_timeout) where too few are left
  bool counts_membership = false;    // nodes that come and go use up max_restarts, too
  bool elected = false;              // by etcd: who leads, wherever that is. `master` is etcd's address
  Address master;                    // the first endpoint: where the store and the coordinator are served
  std::vector<Address> endpoints{};  // all, where the coordinator may move; empty: only `master`
  Duration join_timeout{};           // how long nodes wait for each other
  StopGrace stop_timeout{};
  Duration last_call = std::chrono::seconds(30);    // for more nodes, once there are enough
  Duration node_timeout = std::chrono::seconds(5);  // a node that is silent for so long is lost
  Duration
      hang_timeout{};  // where no worker moves for so long, and one waits in a collective; zero: for ever

  [[nodiscard]] int required_nodes() const { return min_nodes > 0 ? min_nodes : nnodes; }
  [[nodiscard]] bool elastic() const { return required_nodes() < nnodes || spares > 0 || replaces; }
  [[nodiscard]] bool may_move() const { return endpoints.size() > 1 || elected; }
  [[nodiscard]] const Address& endpoint(std::size_t i) const {
    return endpoints.empty() ? master : endpoints[i];
  }
  // How often a node says that it is there.
  [[nodiscard]] Duration heartbeat_interval() const { return node_timeout / 4; }
};

// Where one worker runs.
struct WorkerPlace {
  std::vector<int> cpus;              // sorted; empty: those dlaunch itself may use
  int cores = 0;                      // how many of these are its share; 0 where it is not bound
  std::string cuda_visible_devices;   // empty: as inherited
  std::vector<int> memory_nodes{};    // NUMA nodes that its memory is to come from; empty: as inherited
  std::string hip_visible_devices{};  // empty: as inherited

  bool operator==(const WorkerPlace&) const = default;
};

// What is this node's own.
struct NodeSpec {
  int node_rank = 0;  // the one that was asked for; -1: any
  int slots = 1;      // workers on this node
  std::string host;   // its name, for people
  std::string role = "default";
  std::vector<std::string> command;   // program and arguments; ${local_rank} is replaced in each
  bool virtual_local_rank = false;    // LOCAL_RANK is 0 for every worker
  std::vector<WorkerPlace> places{};  // by local rank; empty: all as inherited
  std::vector<int> stop_signals{SIGTERM, SIGINT, SIGHUP, SIGQUIT};  // others are only passed on
  int preempt_signal = 0;        // SIGTERM gives workers this notice first; 0: none
  Duration preempt_notice{};     // so long before the SIGTERM itself
  bool preempt_ok = false;       // an end by SIGTERM after which all workers here return 0 is a good one
  std::string scratch_dir{};     // where workers put their error files; empty: nowhere
  bool error_files = true;       // false: they are told to write none
  std::string pages_dir{};       // where their pages are; empty: nowhere
  std::string store_key_file{};  // with the key of the job's store; empty: it has none
  std::string timer_file{};    // the FIFO for their timers (agent/observe/timer_watch.h); empty: as inherited
  std::string health_check{};  // a shell command that must return 0 before this node takes part in a round;
                               // empty: none
  Duration health_timeout = std::chrono::seconds(20);
  std::string unfit{};  // why it cannot take part; empty: it can
  int cpus = 1;         // those dlaunch itself may use
  AgentId agent = 0;
  std::uint16_t worker_store = 0;  // the port where worker rank 0 serves the workers' store; 0: the agents do
};

struct WorldMember {
  int node_rank = 0;  // GROUP_RANK: 0 .. nodes-1
  int slots = 0;
  int base_rank = 0;  // the rank of its first worker
  std::string host;
  AgentId agent = 0;
  int sticky_rank =
      0;  // what its rank follows; kept for as long as it stays, so that ranks change as little as they can
  int role_base = 0;        // the ROLE_RANK of its first worker
  int role_world_size = 0;  // workers of its role, on all nodes

  bool operator==(const WorldMember&) const = default;
};

enum class FailureKind : std::uint8_t {
  worker,      // a worker exited with something else than 0
  spawn,       // a worker could not be started
  node_lost,   // a node's agent is gone
  signal,      // an agent was told to stop
  join,        // nodes did not come, or were refused
  unkillable,  // a process survived SIGKILL
  health,      // a node's own check said that it should not take part
  hang,        // workers wait for each other in vain
  agent,       // dlaunch's own machinery broke
  left,        // a worker left its groups while others needed it, and its own end explains nothing
};

// One thing that went wrong, with everything a person needs to find it.
struct Failure {
  FailureKind kind = FailureKind::agent;
  std::uint32_t round = 0;
  int node_rank = -1;
  std::string host;
  int rank = -1;  // -1 where no worker is meant
  int local_rank = -1;
  std::int64_t pid = 0;
  ExitStatus status;  // of the worker; for `signal` the signal
  std::string why;    // a sentence, for every kind but `worker`

  // What is known of a worker's end besides (agent/model/worker_exit.h).
  std::string tail;
  bool tail_is_of_stdout = false;
  std::string exception;
  std::string traceback;
  std::string hint;
  std::string log_file;
  std::int64_t unix_ms = 0;     // when, by the clock of its host; 0: not known
  bool blames_peer = false;     // its last words say that another was gone (agent/model/root_cause.h)
  int blamed_rank = -1;         // whose end broke its groups, a rank in the job; -1: none, or not known
  std::string blamed_for;       // what that one did: "left the group at all_reduce #258 of group default"
  bool while_stopping = false;  // it fell after this node had begun to stop its workers
  bool ended_by_us = false;     // it had failed, but was still there when our signal ended it

  Duration after{};  // since the root cause, by the coordinator's clock

  bool operator==(const Failure&) const = default;
};

// One line: "rank 3 (local rank 1, node 1, host b, pid 4711) exited with code 1: ValueError: no such file".
std::string describe(const Failure& failure);

// Without where it ran: "rank 3 exited with code 1: ValueError: no such file"; of one that accuses another,
// also what that one did.
std::string in_short(const Failure& failure);

// "stopping the other 3: SIGTERM, at most 30 s": what is done after a failure.
std::string describe(const StopGrace& grace, const std::string& whom);

// What happened without who: "exited with code 3", "could not be started".
std::string describe_end(const Failure& failure);

// The same without the long texts, for lists.
Failure brief(Failure failure);

// What dlaunch exits with when this is the cause: the worker's code, 128 + signal, otherwise 1.
int exit_code_of(const Failure& failure);

// An entry of the job's ledger: a round that failed, or lost a node, and was followed by another.
struct Restart {
  int number = 0;       // from 1; of a loss that did not count: how many there had been
  Duration after{};     // since the job's first round began
  Failure cause;        // in brief
  Duration lasted{};    // the round, until the cause
  bool counted = true;  // it used up one of max_restarts

  bool operator==(const Restart&) const = default;
};

// Who is in the job in one round: every member's ranks are contiguous, in the order of the node ranks. The
// copy that a node is sent holds of the members only that node, so that a round costs each node the same
// however many there are.
struct World {
  // The agent whose coordinator formed it. With the round, it names the world: rounds grow with each leader,
  // but the next may not have heard of the last one's last.
  AgentId leader = 0;
  std::uint32_t round = 0;
  int world_size = 0;  // workers
  int nodes = 0;
  int restarts_used = 0;
  Address store;                    // MASTER_ADDR and MASTER_PORT of the workers
  Duration age{};                   // since the job's first round began, when this one was formed
  std::vector<Restart> restarts{};  // for the next coordinator, where there may be one; at most max_restarts
  std::vector<WorldMember> members;
  std::uint64_t fencing = 0;  // its token (agent/model/fencing.h)

  [[nodiscard]] const WorldMember* member(AgentId agent) const {
    for (const WorldMember& m : members) {
      if (m.agent == agent) return &m;
    }
    return nullptr;
  }
  bool operator==(const World&) const = default;
};

// Says where the failure's rank ran in this world.
void place_worker(Failure& failure, const World& world);

// How many failures ended alike, in the words of describe_end().
struct Tally {
  std::string what;
  int count = 0;

  bool operator==(const Tally&) const = default;
};

struct Outcome {
  // The most that is told of each, whatever the size of the job.
  static constexpr int max_others = 64;
  static constexpr int max_restarts = 32;
  static constexpr int max_tallies = 8;
  static constexpr int max_sentences = 8;

  int exit_code = 0;
  int restarts_used = 0;
  bool failed = false;
  Failure cause;                  // where failed
  std::string no_restart{};       // why none followed, where one might have; empty: none was left
  std::vector<Failure> others;    // the next in time in the same round, in brief
  int failure_count = 0;          // how many failed in that round, with the cause and those not in `others`
  std::vector<Tally> tallies;     // of all of these but the cause; the most frequent first
  std::vector<Restart> restarts;  // the last ones, in order
  std::vector<std::string> rank_positions{};  // where the ranks were when it failed (agent/model/diagnosis.h)

  bool operator==(const Outcome&) const = default;
};

}  // namespace dlaunch::agent
