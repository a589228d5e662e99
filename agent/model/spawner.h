// Starting and stopping processes, as the agent sees it. Production: KeeperSpawner; tests: tests/sim.
//
// All calls return at once; what becomes of them is reported to the handler, from the loop's top level.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "agent/model/worker_exit.h"
#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::agent {

// Which start is meant: a local rank and the round it belongs to, so that a late report of an old round is
// known for what it is.
struct ProcKey {
  std::uint32_t round = 0;
  std::uint32_t local_rank = 0;
  auto operator<=>(const ProcKey&) const = default;  // NOLINT(modernize-use-nullptr): its own mistake
};

// Not a worker's, but the node's health check.
inline constexpr ProcKey health_check{UINT32_MAX, 0};

struct Command {
  std::vector<std::string> argv;  // argv[0] is searched on PATH where it has no slash
  std::vector<std::pair<std::string, std::string>>
      environment;                  // set on top of what the agent itself was given
  int rank = 0;                     // among all workers, to name it by
  std::uint64_t leader = 0;         // World::leader: with the round it names the world, on all nodes
  std::vector<int> cpus{};          // bound to these before it begins; empty: as inherited
  std::vector<int> memory_nodes{};  // NUMA nodes that its memory comes from while they have any; empty: as
                                    // inherited, and so where the kernel has no such policy
};

class SpawnerHandler {
 public:
  virtual ~SpawnerHandler() = default;
  virtual void on_started(ProcKey key, std::int64_t pid) = 0;
  // The program is missing, may not be executed, or the system has no room for another process.
  virtual void on_spawn_failed(ProcKey key, const std::string& why) = 0;
  // Everything the process wrote before has been taken in.
  virtual void on_exited(ProcKey key, std::int64_t pid, const WorkerExit& exit) = 0;
  // Started processes have all ended, `count` descendants have not; `example` names one: "4711 (python3)".
  virtual void on_leftovers(int count, const std::string& example) = 0;
  // No started process and no descendant of one is alive.
  virtual void on_all_gone() = 0;
  // `keeper` ("the keeper process 5") was killed. All started processes have ended with it, and what
  // they left; none of those is reported any more. Others can be started.
  virtual void on_workers_lost(const std::string& keeper) = 0;
  // Processes can no longer be started or watched; those that ran have been killed.
  virtual void on_spawner_lost(const std::string& why) = 0;
};

class ProcessSpawner {
 public:
  virtual ~ProcessSpawner() = default;
  virtual void set_handler(SpawnerHandler& handler) = 0;
  // -> on_started or on_spawn_failed, then on_exited. Each process leads a session and process group of its
  // own.
  virtual void spawn(ProcKey key, const Command& command) = 0;
  // To each started process's group, and to every descendant outside them. -> on_leftovers or on_all_gone
  // where nothing that was started is alive.
  virtual void signal_all(int signo) = 0;
  // SIGKILL to every descendant, again and again until none is left. -> on_all_gone
  virtual void kill_all() = 0;
  // What is left survives SIGKILL, and is waited for no longer. In words, what that is.
  virtual std::string give_up() = 0;
  // What was started is killed at `until`, by the agent's clock, unless another time is given before. A time
  // that is over kills it now. TimePoint::max(): never.
  virtual void keep_alive(TimePoint until) = 0;
};

}  // namespace dlaunch::agent
