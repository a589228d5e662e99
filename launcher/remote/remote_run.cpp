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
#include "launcher/console/last_output.h"
#include "launcher/console/verb_output.h"
#include "launcher/flags/values.h"
#include "launcher/machine/machine.h"
#include "launcher/machine/machine_facts.h"
#include "launcher/machine/process_limits.h"
#include "launcher/machine/program_file.h"
#include "launcher/remote/own_host.h"
#include "launcher/remote/remote_dry_run.h"
#include "launcher/remote/remote_runner.h"
#include "launcher/report/report.h"
#include "launcher/report/report_file.h"
#include "store/base/log.h"
#include "store/loop/uv_edge.h"
#include "store/loop/uv_loop.h"

namespace dlaunch::launcher {
namespace {

// Passed on, unless --signals-to-handle makes them stop the job.
constexpr std::array passed_signals{SIGUSR1, SIGUSR2};

Result<std::vector<HostEntry>> named_hosts(const Options& asked, const Outside& outside) {
  if (!asked.hosts.empty()) return parse_hosts(asked.hosts, find(asked.settings, "hosts")->from);
  auto text = outside.read_file(asked.hostfile);
  if (!text) {
    return usage(find(asked.settings, "hostfile")->from + ": cannot read " + asked.hostfile, text.error().why,
                 "check the path");
  }
  return parse_host_file(*text, asked.hostfile);
}

// As its user sees it, where that is the same directory: the way through a link or an automounter is more
// likely to exist on the other hosts.
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

Result<RemotePlan> plan_for_hosts(const Options& asked, const Outside& outside, Random& random) {
  auto all = named_hosts(asked, outside);
  if (!all) return std::move(all).error();
  auto hosts = chosen_hosts(asked, std::move(*all));
  if (!hosts) return std::move(hosts).error();

  RemoteFacts facts;
  std::error_code failed;
  facts.executable = std::filesystem::read_symlink("/proc/self/exe", failed).string();
  if (failed) {
    return Error{ErrorKind::io, "cannot find out where this dlaunch is", "", failed.message(),
                 "is /proc mounted?"};
  }
  facts.environment = outside.around.environment;
  facts.folder = working_directory(facts.environment);
  facts.here = are_this_machine(*hosts);
  facts.random = random.next();
  facts.terms.key = "k" + std::to_string(random.next());
  facts.terms.terminal_out = isatty(STDOUT_FILENO) != 0;
  facts.terms.terminal_err = isatty(STDERR_FILENO) != 0;
  const auto no_color = facts.environment.find("NO_COLOR");
  facts.terms.colours = no_color == facts.environment.end() || no_color->second.empty();
  const bool some_are_elsewhere = std::count(facts.here.begin(), facts.here.end(), false) > 0;
  if (auto found = find_program(asked.ssh.front()); some_are_elsewhere && !found) {
    return std::move(found).error().with_hint(
        "install it (openssh-client), or name the remote shell with --ssh");
  }
  return make_remote_plan(asked, *hosts, facts);
}

void say_what_is_odd(const Options& asked, const EnvironmentMap& environment) {
  for (const std::string& line : asked.warnings) log::warning(line);
  for (const std::string& name : asked.exports) {
    if (name.find('=') == std::string::npos && !environment.contains(name))
      log::warning("--export: " + name + " is not set here, and is left as it is on the hosts");
  }
}

void handle_signals(const Options& asked, agent::UvEdge& edge, RemoteRunner& runner, StopSignals& heard) {
  const auto stops = [&](int signo) {
    return std::find(asked.stop_signals.begin(), asked.stop_signals.end(), signo) != asked.stop_signals.end();
  };
  for (const int signo : asked.stop_signals) {
    struct sigaction before {};
    sigaction(signo, nullptr, &before);
    if (before.sa_handler == SIG_IGN && signo == SIGHUP) continue;  // nohup meant it
    edge.on_signal(signo, [&runner, &heard](int number) {
      heard.on_signal(number);
      runner.on_signal(number, true);
      if (heard.killed() || runner.job().is_over()) runner.give_up_readers();
    });
  }
  for (const int signo : passed_signals) {
    if (!stops(signo)) edge.on_signal(signo, [&runner](int number) { runner.on_signal(number, false); });
  }
  edge.on_signal(SIGTSTP, [](int) {
    log::warning("not suspended: the other hosts would take the silence for this dlaunch's end");
  });
}

// The end as a report, where the hosts' own dlaunch do not know it.
JobReport own_report(const RemotePlan& plan, const Options& asked, const RemoteOutcome& outcome,
                     std::int64_t began_unix_ms) {
  JobReport report;
  report.job = plan.job;
  report.node.host = plan.hosts.front().name;
  report.node.command = asked.program;
  report.outcome.failed = true;
  report.outcome.exit_code = outcome.exit_code;
  report.outcome.cause = *outcome.cause;
  report.began_unix_ms = began_unix_ms;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  report.ended_unix_ms = now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
  return report;
}

int print_plan(const RemotePlan& plan, const Options& asked, const Surroundings& around) {
  const EnvironmentMap carried = carried_environment(asked, around.environment);
  const auto facts = [&](const Options& options, bool here) {
    if (here) return facts_of_this_machine(options, around);
    // The program and its Python are expected to be the same there.
    MachineFacts machine;
    const auto python = carried.find("PYTHON_EXEC");
    if (python != carried.end() && !python->second.empty()) machine.python = python->second;
    machine.program_is_python = is_python_source(options.program.front());
    return machine;
  };
  auto text = dry_run_on_hosts(plan, around.environment, carried, facts);
  return text ? print(*text) : fail(text.error());
}

struct Job {
  const RemotePlan& plan;
  const Options& asked;
  std::int64_t began_unix_ms;
};

// The end, for people and for --report; the exit code. Nothing is heard of the hosts any more.
int finish(const Job& job, const RemoteRunner& runner, RemoteRunner::Consoles& consoles,
           const StopSignals& stop_signals) {
  RemoteOutcome outcome = runner.job().outcome();
  std::optional<JobReport> report;  // of this dlaunch, where the hosts' own do not know the end
  if (outcome.cause) {
    report = own_report(job.plan, job.asked, outcome, job.began_unix_ms);
    outcome.report = end_report(*report);
  }
  for (const std::string& paragraph : outcome.report) log::error(paragraph);

  bool hurried = runner.was_hurried();
  const auto is_hurried = [&] { return hurried = hurried || stop_signals.end_at_once(); };
  const std::array<agent::Console*, 2> both{&consoles[0], &consoles[1]};
  await_readers(both, {job.asked.output_timeout, is_hurried});
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
  if (!job.asked.report.empty() && !json.empty()) {
    const auto written = write_whole(job.asked.report, json);
    if (!written) log::warning(written.error().message());
  }
  const std::string text = describe(dropped, why_dropped(hurried, job.asked.output_timeout), "");
  if (!text.empty()) log::warning(text);
  await_readers(both, {std::min(job.asked.output_timeout, own_line_patience), is_hurried});
  return outcome.exit_code;
}

}  // namespace

int run_on_hosts(const Options& asked, const Outside& outside) {
  UvLoop loop;
  auto plan = plan_for_hosts(asked, outside, loop);
  if (!plan) return fail(plan.error());
  if (!asked.report.empty()) {
    if (auto writable = check_writable(asked.report); !writable) return fail(writable.error());
  }
  if (asked.dry_run) return print_plan(*plan, asked, outside.around);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  raise_descriptor_limit();

  timespec began{};
  clock_gettime(CLOCK_REALTIME, &began);
  RemoteRunner::Consoles consoles{agent::Console(STDOUT_FILENO), agent::Console(STDERR_FILENO)};
  StopSignals stop_signals(asked.stop_signals);
  int exit_code = exit_error;
  {
    agent::UvEdge edge(loop);
    RemoteRunner runner(*plan, asked.preempt_signal == 0 ? Duration::zero() : asked.preempt_notice,
                        asked.output_timeout, loop, edge, consoles);
    log::start("dlaunch", asked.verbose ? log::Level::debug : log::Level::info, isatty(STDERR_FILENO) != 0,
               [&runner](std::string_view line) { runner.write_own(line); });
    say_what_is_odd(asked, outside.around.environment);
    handle_signals(asked, edge, runner, stop_signals);
    runner.begin();
    loop.run();
    stop_signals.block();
    exit_code = finish({*plan, asked, began.tv_sec * 1000 + began.tv_nsec / 1'000'000}, runner, consoles,
                       stop_signals);
    log::stop();
  }
  return exit_code;
}

}  // namespace dlaunch::launcher
