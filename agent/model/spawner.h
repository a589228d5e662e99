// The agent's interface to start and stop processes. Production: KeeperSpawner; tests: tests/sim.
//
// All calls return at once; their results are reported to the handler, from the loop's top level.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "agent/model/worker_exit.h"
#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::agent {

// Identifies one start: a local rank and its round, so that a late report of an old round is recognized.
struct ProcKey {
  std::uint32_t round = 0;
  std::uint32_t local_rank = 0;
  auto operator<=>(const ProcKey&) const = default;  // NOLINT(modernize-use-nullptr): its own mistake
};

// The key of the node's health check, which is not a worker.
inline constexpr ProcKey health_check{UINT32_MAX, 0};

struct Command {
  std::vector<std::string> argv;  // argv[0] is searched on PATH if it has no slash
  std::vector<std::pair<std::string, std::string>> environment;  // added to the agent's own
  int rank = 0;                                                  // in the job, for its name
  std::uint64_t leader = 0;         // World::leader: with the round it identifies the world on all nodes
  std::vector<int> cpus{};          // bound to these before it begins; empty: as inherited
  std::vector<int> memory_nodes{};  // NUMA nodes that its memory comes from while they have any; empty, or if
                                    // the kernel has no such policy: as inherited
  bool speaks_pmi = false;          // it inherits a connection to the agent (agent/model/pmi_wire.h)
  int session_size = 0;             // how many of its round share its session; 0: it has its own
};

class SpawnerHandler {
 public:
  virtual ~SpawnerHandler() = default;
  virtual void on_started(ProcKey key, std::int64_t pid) = 0;
  // The program is missing, may not be executed, or the system has no room for another process.
  virtual void on_spawn_failed(ProcKey key, const std::string& why) = 0;
  // All output that the process wrote has been read.
  virtual void on_exited(ProcKey key, std::int64_t pid, const WorkerExit& exit) = 0;
  // All started processes have ended, but `count` descendants have not; `example` names one: "4711
  // (python3)".
  virtual void on_leftovers(int count, const std::string& example) = 0;
  // No started process and no descendant of one is alive.
  virtual void on_all_gone() = 0;
  // `keeper` ("the keeper process 5") was killed. All started processes and their descendants have ended with
  // it; their ends are not reported. Others can be started.
  virtual void on_workers_lost(const std::string& keeper) = 0;
  // Processes can no longer be started or watched; those that ran have been killed.
  virtual void on_spawner_lost(const std::string& why) = 0;
};

class ProcessSpawner {
 public:
  virtual ~ProcessSpawner() = default;
  virtual void set_handler(SpawnerHandler& handler) = 0;
  // -> on_started, then on_exited; or on_spawn_failed. Each process leads its own process group.
  virtual void spawn(ProcKey key, const Command& command) = 0;
  // Signals each started process's group, and every descendant outside them. -> on_leftovers or on_all_gone
  // if no started process is alive.
  virtual void signal_all(int signo) = 0;
  // Sends SIGKILL to every descendant, again and again until none is left. -> on_all_gone
  virtual void kill_all() = 0;
  // Stops waiting for processes that survive SIGKILL. Returns their description.
  virtual std::string give_up() = 0;
  // Sets the workers' lease: they are killed at `until`, by the agent's clock, unless this is called again
  // before. A time that is over kills them now. TimePoint::max(): never.
  virtual void keep_alive(TimePoint until) = 0;
};

}  // namespace dlaunch::agent
