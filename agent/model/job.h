// The values that agents exchange: what was requested (JobSpec, NodeSpec), what is running (World), what
// failed (Failure) and how the job ended (Outcome). All are plain, printable and comparable.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/model/exit_status.h"
#include "agent/model/stop_grace.h"
#include "agent/model/time_sums.h"
#include "store/base/address.h"
#include "store/base/time.h"

namespace dlaunch::agent {

// Identifies one agent's process; random, so that a restarted agent is another one.
using AgentId = std::uint64_t;

// When a failure is followed by a restart, besides JobSpec::max_restarts.
struct RestartPolicy {
  int burst = 0;  // most restarts within `window`; 0: no limit
  Duration window{};
  Duration first_delay{};  // after two quick failures in a row; then twice as long each time; 0: none
  Duration longest_delay = std::chrono::seconds(60);
  Duration startup_grace{};        // a failure this soon after the job's start is final; 0: none
  int exclude_after = 0;           // a host that was the cause this often is excluded; 0: never
  std::vector<int> final_codes{};  // exit codes of workers after which no restart follows

  bool operator==(const RestartPolicy&) const = default;
};

// How the workers find each other if they are ranks of an MPI program: by PMI-1, or by PMIx.
enum class MpiStart : std::uint8_t { none, pmi, pmix };

// The settings that must be the same on all nodes of a job.
struct JobSpec {
  std::string id;
  int nnodes = 1;     // the most nodes that run at once
  int min_nodes = 0;  // the fewest nodes that may run; 0: nnodes
  int spares = 0;     // nodes beyond nnodes that are expected to wait
  int max_restarts = 0;
  RestartPolicy policy{};
  bool replaces = false;             // if too few nodes are left, waits for a new one (join_timeout)
  bool counts_membership = false;    // nodes that join or leave use up max_restarts, too
  bool elected = false;              // etcd elects the leader, on any host. `master` is etcd's address
  Address master;                    // the first endpoint: where the store and the coordinator are served
  std::vector<Address> endpoints{};  // all, where the coordinator may move; empty: only `master`
  Duration join_timeout{};           // how long nodes wait for each other
  StopGrace stop_timeout{};
  Duration last_call = std::chrono::seconds(30);    // wait for more nodes once there are enough
  Duration node_timeout = std::chrono::seconds(5);  // a node that is silent for this long is lost
  Duration
      hang_timeout{};  // a hang: no worker moves for this long, and one waits in a collective; zero: never
  Duration
      hang_note{};  // after this time the same is only reported (agent/control/hang_notes.h); zero: never
  Duration straggler_window = std::chrono::seconds(60);  // of the notes of stragglers
  std::string accelerate{};  // the backend of PyTorch's whose place libdlaunch takes; empty: none
  MpiStart mpi = MpiStart::none;

  [[nodiscard]] int required_nodes() const { return min_nodes > 0 ? min_nodes : nnodes; }
  [[nodiscard]] bool elastic() const { return required_nodes() < nnodes || spares > 0 || replaces; }
  [[nodiscard]] bool may_move() const { return endpoints.size() > 1 || elected; }
  [[nodiscard]] const Address& endpoint(std::size_t i) const {
    return endpoints.empty() ? master : endpoints[i];
  }
  // The time between two heartbeats of a node.
  [[nodiscard]] Duration heartbeat_interval() const { return node_timeout / 4; }
};

// Where one worker runs.
struct WorkerPlace {
  std::vector<int> cpus;              // sorted; empty: those dlaunch itself may use
  int cores = 0;                      // how many of these are its share; 0 if it is not bound
  std::string cuda_visible_devices;   // empty: as inherited
  std::vector<int> memory_nodes{};    // NUMA nodes that its memory is to come from; empty: as inherited
  std::string hip_visible_devices{};  // empty: as inherited

  bool operator==(const WorkerPlace&) const = default;
};

// The settings of this node alone.
struct NodeSpec {
  int node_rank = 0;  // the requested one; -1: any
  int slots = 1;      // workers on this node
  std::string host;   // its name, for people
  std::string role = "default";
  std::vector<std::string> command;   // program and arguments; ${local_rank} is replaced in each
  bool virtual_local_rank = false;    // LOCAL_RANK is 0 for every worker
  std::vector<WorkerPlace> places{};  // by local rank; empty: all as inherited
  std::vector<int> stop_signals{SIGTERM, SIGINT, SIGHUP, SIGQUIT};  // others are only forwarded
  int preempt_signal = 0;        // on SIGTERM the workers first receive this notice; 0: none
  Duration preempt_notice{};     // the time between the notice and the SIGTERM
  bool preempt_ok = false;       // it is a success if all workers here return 0 after a SIGTERM
  std::string scratch_dir{};     // for the workers' error files; empty: they write none
  bool error_files = true;       // false: the workers' variable for them is set to nothing
  std::string pages_dir{};       // for the workers' pages; empty: there are none
  std::string store_key_file{};  // holds the key of the job's store; empty: it has none
  std::string python_package{};  // the folder of the Python package dlaunch; empty: where Python finds it
  std::string timer_file{};    // the FIFO for their timers (agent/observe/timer_watch.h); empty: as inherited
  std::string health_check{};  // a shell command that must return 0 before this node takes part in a round;
                               // empty: none
  Duration health_timeout = std::chrono::seconds(20);
  std::string unfit{};  // why it cannot take part; empty: it can
  int cpus = 1;         // how many dlaunch itself may use
  AgentId agent = 0;
  std::string pmix_program{};      // dlaunch-pmix, which serves PMIx; empty: it is not needed
  std::uint16_t worker_store = 0;  // the port where worker rank 0 serves the workers' store; 0: the agents do
};

struct WorldMember {
  int node_rank = 0;  // GROUP_RANK: 0 .. nodes-1
  int slots = 0;
  int base_rank = 0;  // the rank of its first worker
  std::string host;
  AgentId agent = 0;
  // Ranks follow its order. A node keeps it while it stays, so that as few ranks as possible change.
  int sticky_rank = 0;
  int role_base = 0;        // the ROLE_RANK of its first worker
  int role_world_size = 0;  // workers of its role, on all nodes

  bool operator==(const WorldMember&) const = default;
};

enum class FailureKind : std::uint8_t {
  worker,      // a worker did not exit with 0
  spawn,       // a worker could not be started
  node_lost,   // a node's agent ended or fell silent
  signal,      // an agent received a signal to stop
  join,        // nodes did not join, or were rejected
  unkillable,  // a process survived SIGKILL
  health,      // a node's own health check failed
  hang,        // workers wait for each other and make no progress
  agent,       // an error of dlaunch itself
  left,        // a worker left its groups while others needed it, and its own end explains nothing
};

// One failure, with everything a user needs to find its cause.
struct Failure {
  FailureKind kind = FailureKind::agent;
  std::uint32_t round = 0;
  int node_rank = -1;
  std::string host;
  int rank = -1;  // -1: it concerns no worker
  int local_rank = -1;
  std::int64_t pid = 0;
  ExitStatus status;  // of the worker; for `signal` the signal
  std::string why;    // a sentence, for every kind but `worker`

  // What else is known of a worker's end (agent/model/worker_exit.h).
  std::string tail;
  bool tail_is_of_stdout = false;
  std::string exception;
  std::string traceback;
  std::string hint;
  std::string remedy;  // what the user can try next; empty: nothing that would help is known. For any kind
  std::string log_file;
  std::int64_t unix_ms = 0;     // when, by the clock of its host; 0: not known
  bool blames_peer = false;     // its last output blames another rank (agent/model/root_cause.h)
  int blamed_rank = -1;         // the rank in the job whose end broke its groups; -1: none, or not known
  std::string blamed_for;       // what that rank did: "left the group at all_reduce #258 of group default"
  bool while_stopping = false;  // it failed after this node had begun to stop its workers
  bool ended_by_us = false;     // it had failed, but our signal ended it before it exited

  Duration after{};      // since the root cause, by the coordinator's clock
  Duration unnoticed{};  // how long it had lasted before it was noticed: a hang, a silent node

  bool operator==(const Failure&) const = default;
};

// One line: "rank 3 (local rank 1, node 1, host b, pid 4711) exited with code 1: ValueError: no such file".
std::string describe(const Failure& failure);

// Without its location: "rank 3 exited with code 1: ValueError: no such file"; if it blames another rank,
// also what that rank did.
std::string in_short(const Failure& failure);

// "stopping the other 3: SIGTERM, at most 30 s": the reaction to a failure.
std::string describe(const StopGrace& grace, const std::string& whom);

// Without the subject: "exited with code 3", "could not be started".
std::string describe_end(const Failure& failure);

// The same without the long texts, for lists.
Failure brief(Failure failure);

// The exit code of dlaunch if this is the cause: the worker's code, 128 + signal, otherwise 1.
int exit_code_of(const Failure& failure);

// An entry of the restart history: a round that failed or lost a node, and that another round followed.
struct Restart {
  int number = 0;       // from 1; for a loss that did not count: the number of restarts before it
  Duration after{};     // since the job's first round began
  Failure cause;        // in brief
  Duration lasted{};    // the round, until the cause
  bool counted = true;  // it used up one of max_restarts

  bool operator==(const Restart&) const = default;
};

// Successive nodes with the same number of workers.
struct NodeBlock {
  int nodes = 0;
  int slots = 0;  // of each
  bool operator==(const NodeBlock&) const = default;
};
// A world of more blocks does not list them.
inline constexpr std::size_t max_node_blocks = 64;

// The membership of one round: every member's ranks are contiguous, in the order of the node ranks. The copy
// that a node receives contains only that node as a member, so that a round costs each node the same however
// many nodes there are.
struct World {
  // The agent whose coordinator formed it. Leader and round together identify the world: rounds grow, but a
  // new leader may not know the last round of the previous one.
  AgentId leader = 0;
  std::uint32_t round = 0;
  int world_size = 0;  // workers
  int nodes = 0;
  int restarts_used = 0;
  Address store;                    // MASTER_ADDR and MASTER_PORT of the workers
  Duration age{};                   // since the job's first round began, when this one was formed
  std::vector<Restart> restarts{};  // for the next coordinator, if there may be one; at most max_restarts
  std::vector<WorldMember> members;
  std::uint64_t fencing = 0;        // its token (agent/model/fencing.h)
  std::vector<NodeBlock> blocks{};  // all nodes, in the order of their ranks; empty: more than the limit

  [[nodiscard]] const WorldMember* member(AgentId agent) const {
    for (const WorldMember& m : members) {
      if (m.agent == agent) return &m;
    }
    return nullptr;
  }
  bool operator==(const World&) const = default;
};

// Fills in where the failure's rank ran in this world.
void place_worker(Failure& failure, const World& world);

// The number of failures with the same describe_end().
struct Tally {
  std::string what;
  int count = 0;

  bool operator==(const Tally&) const = default;
};

struct Outcome {
  // The most entries of each list, whatever the size of the job.
  static constexpr int max_others = 64;
  static constexpr int max_restarts = 32;
  static constexpr int max_tallies = 8;
  static constexpr int max_sentences = 8;

  int exit_code = 0;
  int restarts_used = 0;
  bool failed = false;
  Failure cause;                  // if it failed
  std::string no_restart{};       // why no restart followed though some were left; empty: none was left
  std::vector<Failure> others;    // the next in time in the same round, in brief
  int failure_count = 0;          // all failures of that round: the cause, `others`, and those not listed
  std::vector<Tally> tallies;     // all of these but the cause; the most frequent first
  std::vector<Restart> restarts;  // the last ones, in order
  std::vector<std::string> rank_positions{};  // where the ranks were when it failed (agent/model/diagnosis.h)
  TimeSums times{};                           // of the ranks of all nodes, as far as these have reported

  bool operator==(const Outcome&) const = default;
};

}  // namespace dlaunch::agent
