#include "launcher/remote/remote_run.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "launcher/console/await_readers.h"
#include "launcher/console/command_io.h"
#include "launcher/console/output_loss.h"
#include "launcher/console/stop_signals.h"
#include "launcher/flags/value_parsers.h"
#include "launcher/machine/collect_facts.h"
#include "launcher/machine/machine.h"
#include "launcher/machine/process_limits.h"
#include "launcher/machine/program_file.h"
#include "launcher/remote/local_host.h"
#include "launcher/remote/remote_dry_run.h"
#include "launcher/remote/remote_runner.h"
#include "launcher/report/report.h"
#include "launcher/report/report_file.h"
#include "store/base/log.h"
#include "store/loop/uv_loop.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::launcher {
namespace {

Result<std::vector<HostEntry>> named_hosts(const Options& options, const Dependencies& dependencies) {
  if (!options.hosts.empty()) return parse_hosts(options.hosts, find(options.settings, "hosts")->from);
  auto text = dependencies.read_file(options.hostfile);
  if (!text) {
    return usage(find(options.settings, "hostfile")->from + ": cannot read " + options.hostfile,
                 text.error().why, "check the path");
  }
  return parse_host_file(*text, options.hostfile);
}

// Prefers $PWD if it is the same directory: a path through a link or an automounter is more likely to exist
// on the other hosts.
std::string working_directory(const EnvironmentMap& environment) {
  struct stat named {};
  struct stat real {};
  const auto pwd = environment.find("PWD");
  if (pwd != environment.end() && pwd->second.starts_with('/') && stat(pwd->second.c_str(), &named) == 0 &&
      stat(".", &real) == 0 && named.st_dev == real.st_dev && named.st_ino == real.st_ino)
    return pwd->second;
  std::error_code failed;
  const auto path = std::filesystem::current_path(failed);
  return failed ? "/" : path.string();
}

Result<RemotePlan> plan_for_hosts(const Options& options, const Dependencies& dependencies, Random& random) {
  auto all = named_hosts(options, dependencies);
  if (!all) return std::move(all).error();
  auto hosts = chosen_hosts(options, std::move(*all));
  if (!hosts) return std::move(hosts).error();

  RemoteFacts facts;
  std::error_code failed;
  facts.executable = std::filesystem::read_symlink("/proc/self/exe", failed).string();
  if (failed) {
    return Error{ErrorKind::io, "cannot find out where this dlaunch is", "", failed.message(),
                 "is /proc mounted?"};
  }
  facts.environment = dependencies.scheduler_env.environment;
  facts.folder = working_directory(facts.environment);
  facts.here = are_local_hosts(*hosts);
  facts.random = random.next();
  facts.terms.key = "k" + std::to_string(random.next());
  facts.terms.terminal_out = isatty(STDOUT_FILENO) != 0;
  facts.terms.terminal_err = isatty(STDERR_FILENO) != 0;
  const auto no_color = facts.environment.find("NO_COLOR");
  facts.terms.colours = no_color == facts.environment.end() || no_color->second.empty();
  const bool some_are_elsewhere = std::count(facts.here.begin(), facts.here.end(), false) > 0;
  if (auto found = find_program(options.ssh.front()); some_are_elsewhere && !found) {
    return std::move(found).error().with_hint(
        "install it (openssh-client), or name the remote shell with --ssh");
  }
  return make_remote_plan(options, *hosts, facts);
}

void log_warnings(const Options& options, const EnvironmentMap& environment) {
  for (const std::string& line : options.warnings) log::warning(line);
  for (const std::string& name : options.exports) {
    if (name.find('=') == std::string::npos && !environment.contains(name))
      log::warning("--export: " + name + " is not set here, so each host keeps its own value");
  }
}

void handle_signals(UvPoller& poller, RemoteRunner& runner, StopSignals& heard) {
  const auto stop = [&runner, &heard](int signo) {
    heard.on_signal(signo);
    runner.on_signal(signo, true);
    if (heard.killed() || runner.job().is_over()) runner.give_up_readers();
  };
  heard.watch(poller, stop, [&runner](int signo) { runner.on_signal(signo, false); });
  poller.on_signal(SIGTSTP, [](int) {
    log::warning("not suspended: the other hosts would treat the silence as a lost connection and stop");
  });
}

// The report of an end that only this dlaunch knows.
JobReport own_report(const RemotePlan& plan, const Options& options, const RemoteOutcome& outcome,
                     std::int64_t began_unix_ms) {
  JobReport report;
  report.job = plan.job;
  report.node.host = plan.hosts.front().name;
  report.node.command = options.program;
  report.outcome.failed = true;
  report.outcome.exit_code = outcome.exit_code;
  report.outcome.cause = *outcome.cause;
  report.began_unix_ms = began_unix_ms;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  report.ended_unix_ms = now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
  return report;
}

int print_plan(const RemotePlan& plan, const Options& options, const SchedulerEnvironment& scheduler_env) {
  const EnvironmentMap carried = carried_environment(options, scheduler_env.environment);
  const auto facts = [&](const Options& host_options, bool here) {
    if (here) return collect_facts(host_options, scheduler_env);
    // The program and its Python are assumed to be the same there.
    MachineFacts machine;
    const auto python = carried.find("PYTHON_EXEC");
    if (python != carried.end() && !python->second.empty()) machine.python = python->second;
    machine.program_is_python = is_python_source(host_options.program.front());
    return machine;
  };
  auto text = dry_run_on_hosts(plan, scheduler_env.environment, carried, facts);
  return text ? print(*text) : fail(text.error());
}

struct Job {
  const RemotePlan& plan;
  const Options& options;
  std::int64_t began_unix_ms;
};

// Reports the end, for people and for --report, and returns the exit code. All hosts have ended.
int finish(const Job& job, const RemoteRunner& runner, RemoteRunner::Consoles& consoles,
           const StopSignals& stop_signals) {
  RemoteOutcome outcome = runner.job().outcome();
  std::optional<JobReport> report;  // set if only this dlaunch knows the cause
  if (outcome.cause) {
    report = own_report(job.plan, job.options, outcome, job.began_unix_ms);
    outcome.report = end_report(*report);
  }
  for (const std::string& paragraph : outcome.report) log::error(paragraph);

  bool hurried = runner.was_hurried();
  const auto is_hurried = [&] { return hurried = hurried || stop_signals.end_at_once(); };
  const std::array<agent::Console*, 2> both{&consoles[0], &consoles[1]};
  await_readers(both, {job.options.output_timeout, is_hurried});
  const DroppedOutput dropped{consoles[0].dropped(), consoles[1].dropped()};
  if (dropped.err.bytes > 0 && !outcome.report.empty()) log::error(outcome.report.back());
  for (const agent::Console& console : consoles) {
    if (const std::string loss = console.loss(); !loss.empty()) {
      log::warning(loss);
      if (outcome.exit_code == 0) outcome.exit_code = exit_error;
    }
  }
  if (report) report->dropped = dropped;
  const std::string json = report ? report_json(*report) : with_dropped(outcome.json, dropped);
  if (!job.options.report.empty() && !json.empty()) {
    const auto written = write_whole(job.options.report, json);
    if (!written) log::warning(written.error().message());
  }
  const std::string text = describe(dropped, why_dropped(hurried, job.options.output_timeout), "");
  if (!text.empty()) log::warning(text);
  await_readers(both, {std::min(job.options.output_timeout, own_line_patience), is_hurried});
  return outcome.exit_code;
}

}  // namespace

int run_on_hosts(const Options& options, const Dependencies& dependencies) {
  UvLoop loop;
  auto plan = plan_for_hosts(options, dependencies, loop);
  if (!plan) return fail(plan.error());
  if (!options.report.empty()) {
    if (auto writable = check_writable(options.report); !writable) return fail(writable.error());
  }
  if (options.dry_run) return print_plan(*plan, options, dependencies.scheduler_env);
  const auto from_here = static_cast<std::size_t>(
      std::count_if(plan->hosts.begin(), plan->hosts.end(),
                    [](const RemoteHost& host) { return host.starter == started_from_here; }));
  if (auto enough = check_descriptor_limit_for_hosts(from_here); !enough) return fail(enough.error());
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  raise_descriptor_limit();

  timespec began{};
  clock_gettime(CLOCK_REALTIME, &began);
  RemoteRunner::Consoles consoles{agent::Console(STDOUT_FILENO), agent::Console(STDERR_FILENO)};
  StopSignals stop_signals(options.node.stop_signals);
  int exit_code = exit_error;
  {
    UvPoller poller(loop);
    RemoteRunner runner(*plan,
                        options.node.preempt_signal == 0 ? Duration::zero() : options.node.preempt_notice,
                        options.output_timeout, loop, poller, consoles);
    log::start("dlaunch", options.verbose ? log::Level::debug : log::Level::info, isatty(STDERR_FILENO) != 0,
               [&runner](std::string_view line) { runner.write_own(line); });
    log_warnings(options, dependencies.scheduler_env.environment);
    handle_signals(poller, runner, stop_signals);
    runner.begin();
    loop.run();
    stop_signals.block();
    exit_code = finish({*plan, options, began.tv_sec * 1000 + began.tv_nsec / 1'000'000}, runner, consoles,
                       stop_signals);
    log::stop();
  }
  return exit_code;
}

}  // namespace dlaunch::launcher
