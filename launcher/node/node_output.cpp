#include "launcher/node/node_output.h"

#include <unistd.h>

#include <string_view>
#include <utility>

#include "agent/output/log_dir.h"
#include "launcher/node/containment.h"
#include "launcher/node/wall_clock.h"
#include "launcher/report/clock_time.h"
#include "store/base/log.h"

namespace dlaunch::launcher {

Result<OutputFiles> open_output_files(const JobPlan& plan, const Options& options) {
  OutputFiles files;
  if (agent::wants_log_files(plan.log)) {
    auto made = agent::make_log_dir(plan.log, plan.job.id, temporary_folder());
    if (!made) return std::move(made).error();
    files.log_dir = *made;
  }
  if (!options.events.empty()) {
    auto opened = EventLog::open(options.events);
    if (!opened) return std::move(opened).error();
    files.events.emplace(std::move(*opened));
  }
  return files;
}

agent::Output::Style output_style(const JobPlan& plan, const Options& options, const std::string& log_dir,
                                  const EnvironmentMap& environment) {
  agent::Output::Style style;
  style.log = plan.log;
  style.log_dir = log_dir;
  style.whole_lines = plan.node.slots > 1 || options.lifeline;
  style.ptys = options.pty;
  // Open MPI gives each process a pseudo-terminal, whatever its own output is.
  style.terminal_is_read = environment.contains("OMPI_COMM_WORLD_RANK");
  style.role = plan.node.role;
  style.host = plan.node.host;
  const auto no_color = environment.find("NO_COLOR");
  style.colours = no_color == environment.end() || no_color->second.empty();
  if (options.lifeline) {
    style.onto_terminal = {options.lifeline->terminal_out, options.lifeline->terminal_err};
    style.colours = options.lifeline->colours;
  }
  style.warn = [](const std::string& sentence) { log::warning(sentence); };
  style.time_of_day = [] { return clock_time(unix_ms()); };
  return style;
}

void start_log(const JobPlan& plan, const Options& options, agent::Output& output) {
  const bool is_quiet = options.lifeline && plan.node.node_rank > 0;
  const log::Level level = options.verbose ? log::Level::debug
                           : is_quiet      ? log::Level::warning
                                           : log::Level::info;
  const bool colour = options.lifeline ? options.lifeline->terminal_err && options.lifeline->colours
                                       : isatty(STDERR_FILENO) != 0 && !output.style().terminal_is_read;
  log::start(is_quiet ? "dlaunch: " + plan.node.host : "dlaunch", level, colour,
             [&output](std::string_view line) { output.write_own(line); });
}

void LogReporter::report(const agent::LogMessage& message) {
  switch (message.severity) {
    case agent::Severity::debug:
      log::debug(message.text);
      break;
    case agent::Severity::info:
      log::info(message.text);
      break;
    case agent::Severity::warning:
      log::warning(message.text);
      break;
  }
}

}  // namespace dlaunch::launcher
