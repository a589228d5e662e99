#include "launcher/node/node_process.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "agent/process/job_cgroup.h"
#include "launcher/console/await_readers.h"
#include "launcher/console/command_io.h"
#include "launcher/console/output_loss.h"
#include "launcher/node/final_report.h"
#include "launcher/node/wall_clock.h"
#include "store/base/log.h"

namespace dlaunch::launcher {
namespace {

constexpr Duration time_for_unkillable = std::chrono::seconds(60);

}  // namespace

NodeProcess::NodeProcess(JobPlan plan, OutputFiles files, Dependencies dependencies)
    : dependencies_(dependencies),
      plan_(std::move(plan)),
      files_(std::move(files)),
      poller_(loop_),
      output_(poller_, output_style(plan_, dependencies.options, files_.log_dir, dependencies.environment)),
      stop_signals_(plan_.node.stop_signals),
      postmortem_(plan_.node.scratch_dir, files_.log_dir,
                  [](const std::string& sentence) { log::warning(sentence); },
                  {plan_.node.host, plan_.node.command, plan_.node.pages_dir}) {
  report_.began_unix_ms = unix_ms();
  start_log(plan_, dependencies_.options, output_);
  agent_.emplace(NodeAgent::Dependencies{dependencies_.options, dependencies_.environment, plan_, files_,
                                         loop_, poller_, output_, postmortem_, reporter_},
                 dependencies_.containment.take_keeper());
}

Result<void> NodeProcess::open_endpoints() {
  auto opened = agent_->open_endpoints();
  if (!opened) {
    log::stop();
    return opened;
  }
  if (dependencies_.options.lifeline) send_ready(*dependencies_.options.lifeline, DLAUNCH_VERSION);
  log_start();
  return {};
}

void NodeProcess::log_start() {
  const Options& options = dependencies_.options;
  dependencies_.containment.log_limitations();
  if (!files_.log_dir.empty()) log::info("log files are in " + files_.log_dir);
  for (const std::string& line : options.notices) log::info(line);
  if (const std::string notice = agent_->open_port_notice(); !notice.empty()) log::info(notice);
  for (const std::string& line : options.warnings) log::warning(line);
  for (const std::string& line : plan_.warnings) log::warning(line);
}

void NodeProcess::make_runner() { agent_->make_runner(); }

void NodeProcess::watch_signals() {
  const auto handler = [this](int signo) { on_signal(signo); };
  stop_signals_.watch(poller_, handler, handler);
  if (!stop_signals_.contains(SIGWINCH))
    poller_.on_signal(SIGWINCH, [this](int) { output_.resize_terminals(); });
  if (dependencies_.options.lifeline) {
    lifeline_.emplace(poller_, loop_, loop_, dependencies_.lifeline_input,
                      Lifeline::Calls{handler, [this](const std::string& why) { on_starter_lost(why); }});
  }
}

void NodeProcess::on_signal(int signo) {
  if (!agent_) {
    stopped_by_signal_ = stopped_by_signal_ || stop_signals_.contains(signo);
    return;
  }
  stop_signals_.on_signal(signo);
  agent_->on_signal(signo);
}

void NodeProcess::on_starter_lost(const std::string& why) {
  starter_is_lost_ = true;
  log::warning("lost the connection to the dlaunch that started this node: " + why);
  on_signal(SIGHUP);
}

Result<void> NodeProcess::start() {
  auto started = agent_->start(dependencies_.containment.resources().timer_fifo);
  if (started) return started;
  // Without a keeper, only this process can remove what the job has made.
  log::stop();
  agent::end_and_remove_all(agent_->spawner().resources());
  agent::remove_stale_job_cgroups();
  return started;
}

void NodeProcess::run() {
  loop_.run();
  agent::KeeperSpawner& spawner = agent_->spawner();
  leaving_ = spawner.let_go();
  const Duration patience = spawner.gave_up() ? Duration(0) : time_for_unkillable;
  stop_signals_.block();  // the outcome is decided: a signal from now on must not change the exit code
  outcome_ = agent_->outcome();
  agent_->close();
  fill_report();
  const agent::JobResources resources = spawner.resources();
  if (leaving_) agent::remove_all(resources);
  // Otherwise the spawner's destructor waits until the keeper has seen that no process is left.
  agent_.reset();
  output_.close_all();
  if (!leaving_) agent::end_and_remove_all(resources, patience);
}

void NodeProcess::fill_report() {
  if (outcome_) {
    report_.job = plan_.job;
    report_.node = plan_.node;
    report_.world = agent_->world();
    if (const agent::WorldMember* own = report_.world.member(plan_.node.agent))
      report_.node.node_rank = own->node_rank;
    report_.outcome = *outcome_;
    report_.ended_unix_ms = unix_ms();
    report_.times = agent_->times();
    report_.log_dir = files_.log_dir;
    report_.flight_folder = agent_->flight_folder();
  }
  error_text_ = error_text_of_cause(report_);
  const auto passed_on = dependencies_.environment.find("TORCHELASTIC_ERROR_FILE");
  report_.error_file = error_file_of_cause(
      report_, error_text_, passed_on == dependencies_.environment.end() ? "" : passed_on->second);
}

bool NodeProcess::is_hurried() {
  if (lifeline_) lifeline_->look();
  stopped_by_signal_ = stopped_by_signal_ || starter_is_lost_ || stop_signals_.end_at_once();
  return stopped_by_signal_;
}

int NodeProcess::finish() {
  if (outcome_) {
    report_.shows_last_lines = failed_here(report_) && output_.shows(report_.outcome.cause.tail);
    report_end(report_, dependencies_.options, output_);
  } else {
    log::error("failed: the event loop ended before the job did; this is a bug in dlaunch");
  }
  write_rest_of_output();
  log::stop();
  if (leaving_) leaving_->await();
  if (!outcome_) return exit_error;
  return outcome_->exit_code == 0 && output_.lost_some() ? exit_error : outcome_->exit_code;
}

void NodeProcess::write_rest_of_output() {
  const Options& options = dependencies_.options;
  const auto hurried = [this] { return is_hurried(); };
  // The reader of an agent that another dlaunch started is that dlaunch, which waits for its own reader.
  const auto patience = options.lifeline ? std::nullopt : std::optional(options.output_timeout);
  await_readers(output_.consoles(), {patience, hurried});
  output_.report_loss();
  report_.dropped = {output_.consoles()[0]->dropped(), output_.consoles()[1]->dropped()};
  if (outcome_ && report_.dropped.err.bytes > 0) report_end(report_, options, output_, true);
  if (outcome_) write_reports(report_, error_text_, options, dependencies_.environment);
  log_losses();
  await_readers(output_.consoles(), {std::min(options.output_timeout, own_line_patience), hurried});
}

void NodeProcess::log_losses() {
  const std::string gaps = describe_gaps(output_.lost_in_files(), output_.files_with_gaps(),
                                         output_.why_lost(), files_.log_dir, plan_.node.host);
  const std::string dropped =
      describe(report_.dropped, why_dropped(stopped_by_signal_, dependencies_.options.output_timeout),
               gaps.empty() ? files_.log_dir : "");
  for (const std::string& sentence : {gaps, dropped}) {
    if (!sentence.empty()) log::warning(sentence);
  }
}

}  // namespace dlaunch::launcher
