// Where a node's output goes: log directory, events file, console and dlaunch's own log lines.
#pragma once

#include <optional>
#include <string>

#include "agent/node/runner.h"
#include "agent/output/output.h"
#include "launcher/options/options.h"
#include "launcher/options/plan.h"
#include "launcher/report/event_log.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

struct OutputFiles {
  std::string log_dir;             // empty: the job has no log files
  std::optional<EventLog> events;  // none: no --events
};

// Creates the job's log directory and opens the events file.
Result<OutputFiles> open_output_files(const JobPlan& plan, const Options& options);

agent::Output::Style output_style(const JobPlan& plan, const Options& options, const std::string& log_dir,
                                  const EnvironmentMap& environment);

// dlaunch's own log lines go to `output`, which must outlive log::stop(). Of the agents that another dlaunch
// started, only node 0 logs the job's events; the others log warnings, prefixed with their host.
void start_log(const JobPlan& plan, const Options& options, agent::Output& output);

// Passes the agent's messages to the log.
class LogReporter final : public agent::Reporter {
 public:
  void report(const agent::LogMessage& message) override;
};

}  // namespace dlaunch::launcher
