// ProcessSpawner over the keeper process (keeper.h): the agent's side of their socket.
#pragma once

#include <sys/socket.h>

#include <functional>
#include <optional>
#include <string>

#include "agent/model/spawner.h"
#include "agent/observe/postmortem.h"
#include "agent/output/output.h"
#include "agent/process/guard.h"
#include "agent/process/keeper.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::agent {

class KeeperSpawner final : public ProcessSpawner, public FdHandler {
 public:
  // The first three are not owned.
  KeeperSpawner(UvPoller& poller, Output& output, Postmortem& postmortem, Keeper keeper);
  // Ends the keeper, and with it every process that it started or that came from one; returns when they are
  // gone, or have been given up. Of one that was let go it leaves the wait to the caller.
  ~KeeperSpawner() override;
  KeeperSpawner(const KeeperSpawner&) = delete;
  KeeperSpawner& operator=(const KeeperSpawner&) = delete;

  // Waits until the keeper has begun; what was asked for before is not lost. An error: it could not. Before
  // the loop runs.
  Result<void> await_keeper();

  // Below it is every process of the job on this node. REQUIRES: it has been awaited, here and below.
  [[nodiscard]] pid_t keeper() const { return pid_; }
  [[nodiscard]] const JobResources& resources() const { return keeper_.resources; }
  // The control group's path, or why there is none.
  [[nodiscard]] const std::string& about_cgroup() const { return about_cgroup_; }

  // From now on there is a guard (agent/process/guard.h): if none is there already, it comes `later`, at once
  // if that is 0. `timers` and `clock` outlive this; `say` is called when a guard was lost.
  void begin_guard(Timers& timers, const Clock& clock, Duration later,
                   std::function<void(const std::string&)> warn);

  // If every worker succeeds, nothing will be started after what has been: keeper and guard may then end
  // without being asked, while the caller is told.
  void expect_success();

  // Guard and keeper on their way out.
  struct Leaving {
    pid_t child;  // as Keeper::child
    pid_t keeper;
    void await() const;  // returns when they are gone
  };
  // Nothing more will be started. Where no process is left, keeper and guard end while the caller does what
  // he still has to: the job's traces are his to remove. None: some are left.
  std::optional<Leaving> let_go();
  [[nodiscard]] bool gave_up() const { return gave_up_; }

  void set_handler(SpawnerHandler& handler) override { handler_ = &handler; }
  void spawn(ProcKey key, const Command& command) override;
  void signal_all(int signo) override;
  void kill_all() override;
  std::string give_up() override;
  void keep_alive(TimePoint until) override;

  // Stops every process, as Ctrl-Z does in a shell, and lets them go on. Nobody above is told.
  void suspend();
  void resume();

  void on_readable(int fd) override;
  void on_writable(int fd) override;

 private:
  [[nodiscard]] Leaving leaving() const;
  [[nodiscard]] bool guard_is_above() const;
  void guard(Duration later);
  void end_guard();
  Result<void> start_another();
  ssize_t receive_when_there(msghdr& header) const;
  void wake() const;
  void send(Frame frame, const std::string& body, int out, int err);
  void handle(const Frame& frame, const std::string& body);
  void lost();

  struct StreamEnds {
    int ours = -1;  // -1: it could not be made, and errno says why
    int theirs = -1;
  };
  StreamEnds open_stream(ProcKey key, const Command& command, Output::Stream stream);

  UvPoller& poller_;
  Output& output_;
  Postmortem& postmortem_;
  Keeper keeper_;
  pid_t pid_ = 0;  // the keeper's
  std::string about_cgroup_;
  SpawnerHandler* handler_ = nullptr;
  std::string received_;
  bool killed_ = false;        // the last thing asked for was that nothing may live
  bool nothing_left_ = false;  // no process of the job is alive
  bool gave_up_ = false;       // on those that are
  bool expects_success_ = false;
  bool was_let_go_ = false;
  int outstanding_ = 0;                       // spawns whose process has not been reported as ended
  TimePoint lease_until_ = TimePoint::max();  // of the workers, as asked for last
  std::optional<Guard::Dependencies> guard_dependencies_;  // none: no guard is asked for
  std::optional<Guard> guard_;
};

}  // namespace dlaunch::agent
