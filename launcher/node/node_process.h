// One node's dlaunch, from its plan to its exit code. The methods are the steps of a job, called in the order
// in which they stand here, each once:
//
//   open_endpoints()  the agent answers at its endpoint and has logged what it does
//   make_runner()     the state machines exist
//   watch_signals()   signals and the lifeline reach the Runner
//   start()           workers run
//   run()             the job has ended on this node
//   finish()          output is written, nothing of the job is left
//
// What an error or the end leaves open, the destructors close, in the reverse order of the members. Not
// thread-safe.
#pragma once

#include <optional>
#include <string>

#include "agent/model/job.h"
#include "agent/node/runner.h"
#include "agent/observe/postmortem.h"
#include "agent/output/output.h"
#include "agent/process/job_resources.h"
#include "agent/process/keeper_spawner.h"
#include "launcher/console/stop_signals.h"
#include "launcher/node/containment.h"
#include "launcher/node/node_agent.h"
#include "launcher/node/node_output.h"
#include "launcher/options/options.h"
#include "launcher/options/plan.h"
#include "launcher/remote/lifeline.h"
#include "launcher/report/report.h"
#include "store/base/result.h"
#include "store/loop/uv_loop.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::launcher {

class NodeProcess {
 public:
  // Not owned; all outlive the process.
  struct Dependencies {
    const Options& options;
    const EnvironmentMap& environment;
    Containment& containment;
    int lifeline_input = -1;  // with --lifeline: what was standard input
  };

  // Starts the log. After an error of a later step the log is stopped, and the caller prints the error.
  NodeProcess(JobPlan plan, OutputFiles files, Dependencies dependencies);

  Result<void> open_endpoints();
  void make_runner();
  void watch_signals();
  Result<void> start();
  void run();
  // Reports the end. Returns the exit code.
  int finish();

 private:
  void log_start();
  void on_signal(int signo);
  void on_starter_lost(const std::string& why);
  void fill_report();
  [[nodiscard]] bool is_hurried();
  void write_rest_of_output();
  void log_losses();

  const Dependencies dependencies_;
  JobPlan plan_;
  OutputFiles files_;
  JobReport report_;
  UvLoop loop_;
  UvPoller poller_;
  agent::Output output_;
  LogReporter reporter_;
  StopSignals stop_signals_;
  bool starter_is_lost_ = false;    // the dlaunch that started this one
  bool stopped_by_signal_ = false;  // after the job's end
  std::optional<agent::Outcome> outcome_;
  std::optional<agent::KeeperSpawner::Leaving> leaving_;  // none: processes of the job are left
  std::optional<std::string> error_text_;                 // of the job's cause
  std::optional<Lifeline> lifeline_;
  agent::Postmortem postmortem_;
  std::optional<NodeAgent> agent_;  // none: the job has ended
};

}  // namespace dlaunch::launcher
