// The values the agents talk about: what was asked for (JobSpec, NodeSpec), what is running (World), what
// went wrong (Failure) and how it ended (Outcome). All are plain, printable and comparable.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/exit_status.h"
#include "store/base/address.h"
#include "store/base/time.h"

namespace dlaunch::agent {

// What all nodes of a job must have been told alike.
struct JobSpec {
  std::string id;
  int nnodes = 1;
  int max_restarts = 0;
  Address master;           // where node 0 serves the store and the coordinator
  Duration join_timeout{};  // how long nodes wait for each other
  Duration stop_timeout{};  // from the first signal to SIGKILL
};

// Where one worker runs.
struct WorkerPlace {
  std::vector<int> cpus;             // sorted; empty: those dlaunch itself may use
  int cores = 0;                     // how many cores these are; 0 where it is not bound
  std::string cuda_visible_devices;  // empty: as inherited

  bool operator==(const WorkerPlace&) const = default;
};

// What is this node's own.
struct NodeSpec {
  int node_rank = 0;
  int slots = 1;     // workers on this node
  std::string host;  // its name, for people
  std::string role = "default";
  std::vector<std::string> command;   // program and arguments; ${local_rank} is replaced in each
  bool virtual_local_rank = false;    // LOCAL_RANK is 0 for every worker
  std::vector<WorkerPlace> places{};  // by local rank; empty: all as inherited
  std::vector<int> stop_signals{SIGTERM, SIGINT, SIGHUP, SIGQUIT};  // others are only passed on
  int preempt_signal = 0;     // SIGTERM gives workers this notice first; 0: none
  Duration preempt_notice{};  // so long before the SIGTERM itself
  std::string scratch_dir{};  // where workers put their error files; empty: nowhere
};

struct WorldMember {
  int node_rank = 0;
  int slots = 0;
  int base_rank = 0;  // the rank of its first worker
  std::string host;

  bool operator==(const WorldMember&) const = default;
};

// Who is in the job in one round: every member's ranks are contiguous, in the order of the node ranks.
struct World {
  std::uint32_t round = 0;
  int world_size = 0;
  int restarts_used = 0;
  Address store;  // MASTER_ADDR and MASTER_PORT of the workers
  std::vector<WorldMember> members;

  [[nodiscard]] const WorldMember* member(int node_rank) const {
    for (const WorldMember& m : members) {
      if (m.node_rank == node_rank) return &m;
    }
    return nullptr;
  }
  bool operator==(const World&) const = default;
};

enum class FailureKind : std::uint8_t {
  worker,      // a worker exited with something else than 0
  spawn,       // a worker could not be started
  node_lost,   // a node's agent is gone
  signal,      // an agent was told to stop
  join,        // nodes did not come, or were refused
  unkillable,  // a process survived SIGKILL
  agent,       // dlaunch's own machinery broke
};

// The first thing that went wrong, with everything a person needs to find it.
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
  std::string tail;   // the last lines the worker wrote to stderr
  std::string error;  // a line: what the worker said of its failure, or what killed it; may be empty
  // How long before it was told it had happened, in milliseconds: by the worker's own account (its exception
  // comes before its end), else since its end.
  std::int64_t age_ms = 0;

  bool operator==(const Failure&) const = default;
};

inline constexpr std::size_t most_others = 5;

// One line without the tail: "rank 3 (local rank 1, node 1, host b, pid 4711) exited with code 3".
std::string describe(const Failure& failure);

// What dlaunch exits with when this is the cause: the worker's code, 128 + signal, otherwise 1.
int exit_code_of(const Failure& failure);

struct Outcome {
  int exit_code = 0;
  int restarts_used = 0;
  bool failed = false;
  Failure cause;  // where failed: the first of all
  // Who else failed by itself in that round: the first of them, without their last lines, and how many more.
  std::vector<Failure> others{};
  int more = 0;

  bool operator==(const Outcome&) const = default;
};

}  // namespace dlaunch::agent
