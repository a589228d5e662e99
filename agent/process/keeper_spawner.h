// ProcessSpawner over the keeper process (keeper.h): the agent's end of the socket between them.
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
#include "agent/process/pmi_sockets.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::agent {

class KeeperSpawner final : public ProcessSpawner, public FdHandler {
 public:
  // The first three are not owned.
  KeeperSpawner(UvPoller& poller, Output& output, Postmortem& postmortem, Keeper keeper);
  // Ends the keeper, and with it every process that it started and their descendants; returns when they have
  // ended or have been given up. After let_go() the caller does the waiting.
  ~KeeperSpawner() override;
  KeeperSpawner(const KeeperSpawner&) = delete;
  KeeperSpawner& operator=(const KeeperSpawner&) = delete;

  // Waits until the keeper has started; earlier requests are not lost. An error: it could not start. Call it
  // before the loop runs.
  Result<void> await_keeper();

  // The keeper's pid: an ancestor of every process of the job on this node. This and the next two REQUIRE
  // await_keeper().
  [[nodiscard]] pid_t keeper() const { return pid_; }
  [[nodiscard]] const JobResources& resources() const { return keeper_.resources; }
  // The cgroup's path, or why there is none.
  [[nodiscard]] const std::string& about_cgroup() const { return about_cgroup_; }

  // From now on there is a guard (agent/process/guard.h). If none runs already, it starts after `later`; at
  // once if that is 0. `timers` and `clock` outlive this; `warn` is called when a guard was lost.
  void begin_guard(Timers& timers, const Clock& clock, Duration later,
                   std::function<void(const std::string&)> warn);

  // The caller starts nothing more if every worker succeeds: keeper and guard may then end by themselves,
  // while the caller still receives the reports.
  void expect_success();

  // Guard and keeper, which are about to end.
  struct Leaving {
    pid_t child;  // see Keeper::child
    pid_t keeper;
    void await() const;  // returns when they have ended
  };
  // Nothing more will be started. If no process is left, keeper and guard end while the caller continues; the
  // caller removes the job's resources. None: some processes are left.
  std::optional<Leaving> let_go();
  [[nodiscard]] bool gave_up() const { return gave_up_; }

  // Workers whose Command says so get a connection of these, which outlive this.
  void offer_pmi(PmiSockets& sockets) { pmi_ = &sockets; }

  void set_handler(SpawnerHandler& handler) override { handler_ = &handler; }
  void spawn(ProcKey key, const Command& command) override;
  void signal_all(int signo) override;
  void kill_all() override;
  std::string give_up() override;
  void keep_alive(TimePoint until) override;

  // Stops every process, as Ctrl-Z does in a shell, and continues them. The handler is not notified.
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
  void send(Frame frame, const std::string& body = "", const SpawnDescriptors& fds = {-1, -1, -1});
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
  PmiSockets* pmi_ = nullptr;
  std::string received_;
  bool killed_ = false;        // the last request was kill_all()
  bool nothing_left_ = false;  // no process of the job is alive
  bool gave_up_ = false;       // give_up() was called: survivors are not waited for
  bool expects_success_ = false;
  bool was_let_go_ = false;
  int outstanding_ = 0;                       // spawns whose process has not been reported as ended
  TimePoint lease_until_ = TimePoint::max();  // the workers' lease, by the last keep_alive()
  std::optional<Guard::Dependencies> guard_dependencies_;  // none: begin_guard() was not called
  std::optional<Guard> guard_;
};

}  // namespace dlaunch::agent
