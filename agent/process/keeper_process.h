// What the keeper does while the agent lives (agent/process/keeper.h): it carries out the agent's commands
// and reports which workers ended.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/model/spawner.h"
#include "agent/process/job_cgroup.h"
#include "agent/process/keeper.h"
#include "agent/process/pending_execs.h"
#include "agent/process/worker_session.h"
#include "agent/process/worker_start.h"

namespace dlaunch::agent {

class KeeperProcess {
 public:
  // `socket` is the keeper's end.
  KeeperProcess(int socket, const Inherited& inherited, JobCgroup cgroup)
      : socket_(socket), inherited_(inherited), cgroup_(std::move(cgroup)), sub_cgroup_(cgroup_.fd) {}

  // Returns when the agent has ended.
  void run();

 private:
  bool take_command();
  [[nodiscard]] bool nothing_is_left() const { return workers_.empty() && reported_ == 0; }
  bool read_frame(Frame& frame, SpawnDescriptors& fds);
  bool read_all(char* into, std::size_t size) const;
  void spawn(const Frame& frame, std::vector<char> body, const SpawnDescriptors& fds);
  WorkerSession* session_of(const Frame& spawn);
  void spawn_failed(ProcKey key, const PendingExecs::Failure& failure);
  void report_started();
  void signal_all(int signo);
  void suspend(bool stop);
  void end_lease_when_over();
  [[nodiscard]] int poll_timeout() const;
  [[nodiscard]] int lease_left(int most) const;
  void kill_once();
  int cgroup_of_next();
  void reap();
  [[nodiscard]] bool has_command() const;
  void report_rest(bool again);
  void send(const Frame& frame, std::string_view body);
  void flush();

  int socket_;
  Inherited inherited_;
  JobCgroup cgroup_;
  int sub_cgroup_;       // where workers are started: the cgroup itself, after a kill a new one inside it
  int sub_cgroups_ = 0;  // how many there have been
  std::map<pid_t, ProcKey> workers_;
  PendingExecs pending_execs_;              // those workers that have not called exec yet
  std::unique_ptr<WorkerSession> session_;  // of a round of which workers are still to come
  std::uint32_t session_round_ = 0;
  std::string unsent_;
  bool killing_ = false;
  std::int64_t lease_end_ = 0;  // by boot_time_ms(); 0: there is none
  // How many processes were left by the last report to the agent. None: a worker was requested since then, so
  // that report is out of date, and even the same count must be reported again.
  std::optional<std::size_t> reported_ = 0;
  bool any_failed_ = false;  // any worker so far
  bool leaves_after_success_ = false;
};

}  // namespace dlaunch::agent
