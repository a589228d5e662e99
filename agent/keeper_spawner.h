// ProcessSpawner over the keeper process (keeper.h): the agent's side of their socket.
#pragma once

#include <deque>
#include <string>

#include "agent/keeper.h"
#include "agent/output.h"
#include "agent/postmortem.h"
#include "agent/spawner.h"
#include "agent/uv_edge.h"

namespace dlaunch::agent {

class KeeperSpawner final : public ProcessSpawner, public FdHandler {
 public:
  // The first three are not owned.
  KeeperSpawner(UvEdge& edge, Output& output, Postmortem& postmortem, Keeper keeper);
  // Ends the keeper, and with it every process that it started or that came from one; returns when they are
  // gone, or have been given up.
  ~KeeperSpawner() override;
  KeeperSpawner(const KeeperSpawner&) = delete;
  KeeperSpawner& operator=(const KeeperSpawner&) = delete;

  // Waits until the keeper has begun; the guard forks it meanwhile, and what was asked for before is not
  // lost. An error: it could not. Before the loop runs.
  Result<void> await_keeper();

  // Below it is every process of the job on this node. REQUIRES: it has been awaited.
  [[nodiscard]] pid_t keeper() const { return pid_; }

  // Nothing more will be started. Where no process is left, keeper and guard end while the caller does what
  // he still has to; the job's traces are then his to remove.
  void let_go();
  [[nodiscard]] bool gave_up() const { return gave_up_; }

  void set_handler(SpawnerHandler& handler) override { handler_ = &handler; }
  void spawn(ProcKey key, const Command& command) override;
  void signal_all(int signo) override;
  void kill_all() override;
  std::string give_up() override;
  void keep_alive(Duration lease) override;

  // Stops every process, as Ctrl-Z does in a shell, and lets them go on. Nobody above is told.
  void suspend();
  void resume();

  void on_readable(int fd) override;
  void on_writable(int fd) override;

 private:
  void send(Frame frame, const std::string& body, int out, int err);
  void handle(const Frame& frame, const std::string& body);
  void lost();

  UvEdge& edge_;
  Output& output_;
  Postmortem& postmortem_;
  Keeper keeper_;
  pid_t pid_ = 0;  // the keeper's
  SpawnerHandler* handler_ = nullptr;
  std::string received_;
  bool killed_ = false;        // the last thing asked for was that nothing may live
  bool nothing_left_ = false;  // no process of the job is alive
  bool gave_up_ = false;       // on those that are
  int outstanding_ = 0;        // spawns whose process has not been reported as ended
};

}  // namespace dlaunch::agent
