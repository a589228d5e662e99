// Looks at workers that record nothing, when the job may hang: the agent's end of `dlaunch dump --inspect`
// (launcher/commands/inspection.h), which asks their sockets and runs debuggers meanwhile.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "agent/control/messages.h"
#include "agent/model/log_message.h"
#include "agent/model/worker_records.h"
#include "store/base/io.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::launcher {

// One thread: the loop's.
class Inspector final : public FdHandler, public TimerHandler {
 public:
  struct Dependencies {  // not owned; all must outlive it
    UvPoller& poller;
    Clock& clock;
    Timers& timers;
  };
  struct Config {
    std::string scratch_dir;  // of the workers' sockets; empty: they have none
    std::string log_dir;      // this job's; empty: flight records go to a folder beside it that stays
    std::function<void(const agent::LogMessage&)> on_log;
    // Called once for each inspect(); without groups if nothing was learned.
    std::function<void(std::uint32_t round, std::vector<agent::GroupProgress>)> on_inspected;
  };

  Inspector(Dependencies dependencies, Config config);
  ~Inspector() override;
  Inspector(const Inspector&) = delete;
  Inspector& operator=(const Inspector&) = delete;

  // While it looks, another call learns nothing.
  void inspect(std::uint32_t round, int world_size, const std::vector<agent::WorkerHere>& workers);
  // The job has ended: keeps what PyTorch has written by itself (TORCH_FR_DUMP_TEMP_FILE), and ends what
  // runs.
  void finish();
  // Of the latest flight records; empty: there are none.
  [[nodiscard]] const std::string& folder() const { return kept_; }

  void on_readable(int fd) override;
  void on_writable(int) override {}
  void on_timer(TimerId timer) override;

 private:
  [[nodiscard]] bool start(const std::vector<std::string>& command);
  bool make_folder(std::uint32_t round);
  void keep_folder();
  void take(const agent::Message& message);
  void end();

  Dependencies dependencies_;
  Config config_;
  std::string folder_;  // for flight records; empty: none yet
  std::string kept_;    // the same, once it has any
  std::uint32_t round_ = 0;
  pid_t pid_ = 0;               // of the process that looks; 0: none
  std::vector<pid_t> running_;  // the workers that were not stopped before
  int output_ = -1;
  bool has_answered_ = false;
  agent::FrameReader reader_;
  TimerId deadline_;
};

}  // namespace dlaunch::launcher
