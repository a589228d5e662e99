// dlaunch: builds the real world (loop, keeper, output, store), hands it to the Runner, and maps the end to
// an exit code.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "agent/election/etcd_election.h"
#include "agent/model/error_file.h"
#include "agent/node/runner.h"
#include "agent/observe/postmortem.h"
#include "agent/observe/timer_watch.h"
#include "agent/observe/worker_pages.h"
#include "agent/output/log_dir.h"
#include "agent/platform/status_socket.h"
#include "agent/process/job_cgroup.h"
#include "agent/process/job_resources.h"
#include "agent/process/keeper_spawner.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/completion.h"
#include "launcher/console/await_readers.h"
#include "launcher/console/command_io.h"
#include "launcher/console/output_loss.h"
#include "launcher/console/terminal_suspend.h"
#include "launcher/flags/spelling.h"
#include "launcher/machine/collect_facts.h"
#include "launcher/machine/local_addresses.h"
#include "launcher/machine/machine.h"
#include "launcher/machine/mpi_proxy.h"
#include "launcher/machine/process_limits.h"
#include "launcher/machine/program_file.h"
#include "launcher/machine/sanitize_startup.h"
#include "launcher/node/containment.h"
#include "launcher/node/secret.h"
#include "launcher/node/serve.h"
#include "launcher/node/tls.h"
#include "launcher/node/unfit_node.h"
#include "launcher/options/dry_run.h"
#include "launcher/options/options.h"
#include "launcher/options/plan.h"
#include "launcher/remote/lifeline.h"
#include "launcher/remote/remote_run.h"
#include "launcher/report/clock_time.h"
#include "launcher/report/event_log.h"
#include "launcher/report/report.h"
#include "launcher/report/report_file.h"
#include "launcher/report/torchelastic_events.h"
#include "store/base/log.h"
#include "store/base/random.h"
#include "store/base/small_file.h"
#include "store/contract/worker_env.h"
#include "store/loop/uv_loop.h"
#include "store/loop/uv_poller.h"
#include "store/server/server.h"
#include "store/server/status_page.h"

namespace dlaunch::launcher {
namespace {

// Passed on, unless --signals-to-handle makes them stop the job.
constexpr std::array passed_signals{SIGUSR1, SIGUSR2};

// The area that `ps` shows as the command line.
std::size_t argument_area(int argc, char** argv) {
  const char* end = argv[0];
  for (int i = 0; i < argc && argv[i] == end; ++i) end += std::strlen(argv[i]) + 1;
  return static_cast<std::size_t>(end - argv[0]);
}

std::optional<std::string> variable(const Dependencies& dependencies, const char* name) {
  const auto found = dependencies.scheduler_env.environment.find(name);
  return found == dependencies.scheduler_env.environment.end() ? std::nullopt : std::optional(found->second);
}

Dependencies outside_world() {
  Dependencies dependencies{{environment(), host_name(), ""}, read_small_file};
  // Only a pod of a Kubernetes Indexed Job needs its full name.
  if (variable(dependencies, "JOB_COMPLETION_INDEX")) {
    if (auto hosts = read_small_file("/etc/hosts")) dependencies.scheduler_env.hosts_file = std::move(*hosts);
  }
  // It lies on the first node only with some of PBS's.
  if (const auto file = variable(dependencies, "PBS_NODEFILE")) {
    if (auto nodes = read_small_file(*file)) dependencies.scheduler_env.pbs_nodes = std::move(*nodes);
  }
  if (variable(dependencies, "PMI_SIZE")) dependencies.scheduler_env.mpi_run = hydra_proxy();
  return dependencies;
}

// For this dlaunch's own workers, who inherit them.
void set_exports(const std::vector<std::string>& exports, EnvironmentMap& environment) {
  for (const std::string& one : exports) {
    const std::size_t equals = one.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = one.substr(0, equals);
    environment[name] = one.substr(equals + 1);
    setenv(name.c_str(), environment[name].c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  }
}

// Another that may have been meant.
Error not_there(Error error, const std::string& program) {
  const bool is_missing = error.hint.starts_with("check ");
  const std::string near = is_missing ? similar_program(program) : "";
  return near.empty() ? std::move(error) : std::move(error).with_hint("did you mean " + near + "?");
}

// Of a program that is not there: a command of dlaunch's own, mistyped or not in the first place.
Error missing_program(Error error, const std::string& program) {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.push_back(command.name);
  const std::string near = nearest(program, names);
  if (near.empty()) return not_there(std::move(error), program);
  return std::move(error).with_hint(near == program ? "a command is the first word: dlaunch " + near + " ..."
                                                    : "did you mean dlaunch " + near + "?");
}

Result<void> check_program(const JobPlan& plan) {
  const auto found = find_program(plan.program);
  if (!found) return missing_program(found.error(), plan.program);
  if (auto runs = check_interpreter(*found); !runs) return runs;
  if (!plan.script.empty() && access(plan.script.c_str(), R_OK) != 0) {
    const std::string why = std::strerror(errno);
    return not_there({ErrorKind::not_found, "cannot start '" + plan.script + "'", "", why, "check the path"},
                     plan.script);
  }
  return {};
}

bool stops(const agent::NodeSpec& node, int signo) {
  return std::find(node.stop_signals.begin(), node.stop_signals.end(), signo) != node.stop_signals.end();
}

class LogReporter final : public agent::Reporter {
 public:
  void report(const agent::LogMessage& message) override {
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
};

// What the election's key says of this agent: where it is reached, and which one it is.
std::string own_name(const JobPlan& plan) {
  return to_string(plan.own) + " " + std::to_string(plan.node.agent);
}

std::optional<agent::Runner::Config::Leader> leader_of(const std::optional<std::string>& name,
                                                       const std::string& own) {
  if (!name) return std::nullopt;
  const auto address = parse_address(name->substr(0, name->find(' ')), 0);
  if (!address) return std::nullopt;
  return agent::Runner::Config::Leader{*address, *name == own};
}

// The port must be known before the Runner is made, and the Runner before an agent calls; no event comes in
// between.
class DeferredAcceptor final : public AgentAcceptor {
 public:
  agent::Runner* runner = nullptr;
  ConnectionHandler& on_agent_connection(ConnId conn, const Address& peer) override {
    return runner->on_agent_connection(conn, peer);
  }
  bool end_unauthenticated(TimePoint came_before) override {
    return runner != nullptr && runner->end_unauthenticated(came_before);
  }
};

std::int64_t unix_us() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1'000'000 + now.tv_nsec / 1000;
}
std::int64_t unix_ms() { return unix_us() / 1000; }

agent::Output::Style output_style(const JobPlan& plan, const Options& options, const std::string& log_dir,
                                  const EnvironmentMap& environment) {
  agent::Output::Style style;
  style.log = plan.log;
  style.log_dir = log_dir;
  style.whole_lines = plan.node.slots > 1 || options.lifeline;
  style.ptys = options.pty;
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

// One voice for the job: of the agents that another dlaunch started, node 0 tells what happens; the others
// only what goes wrong, and where.
void start_log(const JobPlan& plan, const Options& options, agent::Output& output) {
  const bool is_quiet = options.lifeline && plan.node.node_rank > 0;
  const log::Level level = options.verbose ? log::Level::debug
                           : is_quiet      ? log::Level::warning
                                           : log::Level::info;
  const bool colour = options.lifeline ? options.lifeline->terminal_err && options.lifeline->colours
                                       : isatty(STDERR_FILENO) != 0;
  log::start(is_quiet ? "dlaunch: " + plan.node.host : "dlaunch", level, colour,
             [&output](std::string_view line) { output.write_own(line); });
}

// The end, for people or for the dlaunch that started this one. `again`: what was said before was dropped.
void report_end(const JobReport& report, const Options& options, agent::Output& output, bool again = false) {
  using Kind = AgentMessage::Kind;
  const auto send = [&](Kind kind, const std::string& text) {
    output.write_own(to_line(options.lifeline->key, {kind, text}));
  };
  std::vector<std::string> paragraphs = end_report(report);
  if (again && !paragraphs.empty()) paragraphs.erase(paragraphs.begin(), paragraphs.end() - 1);
  for (const std::string& paragraph : paragraphs) {
    if (options.lifeline) {
      send(Kind::report, paragraph);
    } else {
      log::error(paragraph);
    }
  }
  if (!options.lifeline) return;
  if (!options.report.empty()) send(Kind::json, report_json(report));
  send(Kind::end, std::to_string(report.outcome.exit_code));
}

// Whether a worker of this node was the job's cause.
bool fell_here(const JobReport& report) {
  const agent::Failure& cause = report.outcome.cause;
  return report.outcome.failed && cause.kind == agent::FailureKind::worker &&
         cause.node_rank == report.node.node_rank;
}

// What the job's cause left in its error file, with the job's exit code; none where that was on another node.
std::optional<std::string> words_of_cause(const JobReport& report) {
  const agent::Failure& cause = report.outcome.cause;
  if (!fell_here(report) || report.node.scratch_dir.empty()) return std::nullopt;
  const std::string path = agent::error_file_path(report.node.scratch_dir, cause.round,
                                                  static_cast<std::uint32_t>(cause.local_rank));
  const auto file = agent::read_plain_file(path, agent::longest_error_file);
  return file ? agent::with_error_code(file->text, report.outcome.exit_code) : std::nullopt;
}

// As kept in this job's log directory, or passed on to who started this dlaunch as its worker. Empty:
// neither.
std::string error_file_of_cause(const JobReport& report, const std::optional<std::string>& words,
                                const std::string& passed_on) {
  if (!fell_here(report)) return "";
  const agent::Failure& cause = report.outcome.cause;
  std::string kept =
      agent::worker_log_dir(report.log_dir, cause.round, static_cast<std::uint32_t>(cause.local_rank));
  kept.append("/").append(agent::kept_error_file);
  if (!report.log_dir.empty() && access(kept.c_str(), F_OK) == 0) return kept;
  return words ? passed_on : "";
}

// What the job ended with is more than a file that cannot be written: that is only said.
void write_reports(const JobReport& report, const std::optional<std::string>& words_of_cause,
                   const Options& options, const EnvironmentMap& environment) {
  if (!options.report.empty() && !options.lifeline) {
    const auto written = write_whole(options.report, report_json(report));
    if (!written) log::warning(written.error().message());
  }
  // Of an agent that started this dlaunch as its worker.
  const auto own = environment.find("TORCHELASTIC_ERROR_FILE");
  if (!report.outcome.failed || own == environment.end() || own->second.empty()) return;
  const agent::Failure& cause = report.outcome.cause;
  const std::int64_t when_ms = cause.unix_ms > 0 ? cause.unix_ms : report.ended_unix_ms;
  const std::string& words = cause.traceback.empty() ? cause.tail : cause.traceback;
  const agent::ErrorFile file{describe(cause), words, when_ms / 1000};
  const auto written =
      write_whole(own->second, words_of_cause.value_or(agent::to_error_file(file, report.outcome.exit_code)));
  if (!written) log::warning(written.error().message());
}

// Nodes may share a machine, and this one has workers of the new round.
std::set<std::string> without_local_addresses(std::set<std::string> addresses) {
  if (addresses.empty()) return addresses;
  for (const std::string& own : local_addresses()) addresses.erase(own);
  return addresses;
}

bool is_all_taken(const agent::Output& output) {
  const auto consoles = output.consoles();
  return std::all_of(consoles.begin(), consoles.end(),
                     [](const agent::Console* one) { return one->is_empty(); });
}

// Those that are being closed: the loop does that, and will not run any more.
void let_connections_end(UvLoop& loop) {
  struct Stop final : TimerHandler {
    explicit Stop(UvLoop& running) : loop(running) {}
    void on_timer(TimerId) override { loop.stop(); }
    UvLoop& loop;
  } stop(loop);
  loop.arm(loop.now() + std::chrono::milliseconds(20), stop);
  loop.run();
}

// Nobody else is left to remove what the job has made.
int fail_without_keeper(const Error& why, const agent::JobResources& resources) {
  log::stop();
  agent::end_and_remove_all(resources);
  agent::remove_stale_job_cgroups();
  return fail(why);
}

// `lifeline_input`: with --lifeline, what was standard input.
int run(JobPlan plan, const Options& options, const EnvironmentMap& environment, Containment& held,
        int lifeline_input) {
  JobReport report;
  report.began_unix_ms = unix_ms();
  std::string log_dir;
  if (agent::wants_log_files(plan.log)) {
    auto made = agent::make_log_dir(plan.log, plan.job.id, temporary_folder());
    if (!made) return fail(made.error());
    log_dir = *made;
  }
  std::optional<EventLog> events;
  if (!options.events.empty()) {
    auto opened = EventLog::open(options.events);
    if (!opened) return fail(opened.error());
    events.emplace(std::move(*opened));
  }
  UvLoop loop;
  agent::UvPoller poller(loop);
  agent::Output output(poller, output_style(plan, options, log_dir, environment));
  start_log(plan, options, output);
  LogReporter reporter;
  bool is_heard = true;  // false: who started this is gone
  std::optional<agent::Outcome> outcome;
  Duration patience = std::chrono::seconds(60);          // with what cannot be killed
  std::optional<agent::KeeperSpawner::Leaving> leaving;  // none: processes of the job are left
  agent::JobResources resources;
  std::optional<std::string> words;  // of the job's cause, from its error file
  StopSignals stop_signals(plan.node.stop_signals);
  std::function<void(int)> on_signal;
  std::optional<Lifeline> lifeline;
  agent::Postmortem postmortem(plan.node.scratch_dir, log_dir,
                               [](const std::string& sentence) { log::warning(sentence); });
  {
    agent::KeeperSpawner spawner(poller, output, postmortem, held.take_keeper());
    DeferredAcceptor acceptor;
    SecureNetwork network(loop, loop, options.tls ? tls_sessions(options.secret) : SecureNetwork::Sessions{});
    ServerOptions server_options;
    server_options.agents = &acceptor;
    StatusPage page(loop);
    server_options.https = &page;
    server_options.port = port_limits(plan.node.slots, plan.job.nnodes + plan.job.spares);
    server_options.limits.total_bytes = options.store_max_total.value_or(usual_store_total());
    server_options.http_rules = http_rules_of(plan, options.secret);
    server_options.key = key_of_store(options.secret, options.tls);
    if (options.tls) server_options.secure = &network;
    server_options.report = [](const std::string& sentence) { log::warning(sentence); };
    StoreServer server(network, loop, loop, server_options);
    page.show(server, server_options.limits);
    const auto serves = serve_endpoint(server, plan);
    if (!serves) {
      log::stop();
      return fail(serves.error());
    }
    HealthEndpoint health(loop, loop, loop, server_options.report);
    constexpr const char* health_port = "TORCHELASTIC_HEALTH_CHECK_PORT";
    if (const auto port = environment.find(health_port); port != environment.end() && !port->second.empty()) {
      if (auto opened = health.open(port->first, port->second); !opened) {
        log::stop();
        return fail(opened.error());
      }
    }
    // From here on the agent answers at its endpoint; nothing has been started yet.
    if (options.lifeline) send_ready(*options.lifeline, DLAUNCH_VERSION);
    held.log_limitations();
    if (!log_dir.empty()) log::info("log files are in " + log_dir);
    for (const std::string& line : options.notices) log::info(line);
    if (const std::string notice = open_port_notice(*serves, plan, options.secret); !notice.empty())
      log::info(notice);
    for (const std::string& line : options.warnings) log::warning(line);
    for (const std::string& line : plan.warnings) log::warning(line);

    agent::WorkerPages pages(plan.node.pages_dir);
    std::optional<agent::EtcdElection> election;
    agent::Runner::Config runner_config{plan.job,
                                        plan.node,
                                        DLAUNCH_VERSION,
                                        inherited_environment(options, environment),
                                        serves->endpoint,
                                        [&server](std::uint32_t, std::set<std::string> blocked_hosts) {
                                          server.new_round(without_local_addresses(std::move(blocked_hosts)));
                                        },
                                        [&loop] { loop.stop(); }};
    runner_config.records = &pages;
    runner_config.unix_us = unix_us();
    runner_config.secret = options.secret;
    runner_config.on_proved = [&server](const std::string& host) { server.trust(host); };
    runner_config.draw_nonce = [] { return random_bytes(agent::nonce_size); };
    if (events || options.events_on_console) {
      runner_config.on_event = [&events, &output, &options, &plan,
                                event_facts = event_facts_of(plan)](const agent::Event& event) {
        const std::string line = options.events_format == EventsFormat::torchelastic
                                     ? torchelastic_event(event, event_facts, unix_ms())
                                     : event_line(event, plan.job.id);
        if (events) events->write(line);
        if (options.events_on_console) output.write_own(line);
      };
    }
    if (plan.job.elected) {
      runner_config.find_leader = [&election, &plan] {
        return leader_of(election->leader(), own_name(plan));
      };
      runner_config.own = plan.own;
    }
    agent::Runner runner({loop, loop, network, spawner, reporter}, std::move(runner_config));
    acceptor.runner = &runner;
    if (serves->endpoint.has_value()) {
      const auto view = [&runner, &loop] {
        return runner.coordinator() ? runner.coordinator()->view(loop.now()) : agent::WorldView{};
      };
      page.add("/", "text/html; charset=utf-8", [view] { return agent::html(view()); });
      page.add("/job", "application/json", [view] { return agent::to_json(view()); });
      page.add_metrics([view] { return agent::metrics(view()); });
    }
    if (plan.job.elected) {
      election.emplace(agent::EtcdElection::Dependencies{loop, loop, loop},
                       agent::EtcdElection::Config{
                           plan.job.endpoints, plan.etcd_key, own_name(plan), plan.job.node_timeout,
                           [&runner](TimePoint until, const std::optional<std::string>& left_behind) {
                             runner.on_election(until, left_behind);
                           },
                           [&runner] { runner.on_election(std::nullopt); },
                           [&reporter](const agent::LogMessage& message) { reporter.report(message); }});
    }
    on_signal = [&runner, &stop_signals](int signo) {
      stop_signals.on_signal(signo);
      runner.on_signal(signo);
    };
    for (int signo : plan.node.stop_signals) {
      struct sigaction before {};
      sigaction(signo, nullptr, &before);
      if (before.sa_handler == SIG_IGN && signo == SIGHUP) continue;  // nohup meant it
      poller.on_signal(signo, on_signal);
    }
    for (int signo : passed_signals) {
      if (!stops(plan.node, signo)) poller.on_signal(signo, on_signal);
    }

    suspend_with_terminal(poller, spawner, output);
    if (!stops(plan.node, SIGWINCH))
      poller.on_signal(SIGWINCH, [&output](int) { output.resize_terminals(); });

    const agent::StatusSocket status_socket(poller, [&runner, &output, &log_dir, &plan] {
      agent::JobStatus status = runner.status();
      status.agent = getpid();
      status.log_dir = log_dir;
      status.pages_dir = plan.node.pages_dir;
      for (agent::WorkerStatus& worker : status.workers) {
        worker.last_output = output.last_line(
            {static_cast<std::uint32_t>(status.round), static_cast<std::uint32_t>(worker.local_rank)});
      }
      return agent::to_json(status);
    });
    if (options.lifeline) {
      lifeline.emplace(poller, loop, loop, lifeline_input,
                       Lifeline::Calls{[&on_signal](int signo) { on_signal(signo); },
                                       [&on_signal, &is_heard](const std::string& why) {
                                         is_heard = false;
                                         log::warning("nobody is left who started this: " + why);
                                         on_signal(SIGHUP);
                                       }});
    }
    if (election) election->begin();
    // A few workers are asked for before the keeper is there, and guarded when they run: it is soonest so. To
    // ask for many takes long.
    constexpr int few = 8;
    const bool are_few = plan.node.slots <= few;
    if (are_few) runner.begin();
    if (auto keeper = spawner.await_keeper(); !keeper)
      return fail_without_keeper(keeper.error(), spawner.resources());
    spawner.begin_guard(loop, loop, are_few ? std::chrono::milliseconds(20) : std::chrono::milliseconds(0),
                        [](const std::string& sentence) { log::warning(sentence); });
    if (!are_few) runner.begin();
    if (plan.job.nnodes == 1 && plan.job.spares == 0) spawner.expect_success();
    log::debug("the workers' control group: " + spawner.about_cgroup());
    std::optional<agent::TimerWatch> timers;
    if (const agent::TimerFifo& fifo = held.resources().timer_fifo; fifo.exists()) {
      timers.emplace(
          agent::TimerWatch::Dependencies{poller, loop, loop},
          agent::TimerWatch::Config{
              fifo.fd, [&spawner] { return spawner.keeper(); }, [&runner] { return runner.status(); },
              [&reporter](const agent::LogMessage& message) { reporter.report(message); }});
      postmortem.ask_of_signals([&timers](agent::ProcKey worker) { return timers->sent_to(worker); });
    }
    loop.run();
    leaving = spawner.let_go();
    patience = spawner.gave_up() ? Duration(0) : patience;
    stop_signals.block();  // how the job ends is decided: one that comes now must not change the exit code
    outcome = runner.outcome();
    if (election) {
      std::optional<agent::EtcdElection::EndingRecord> ending_record;
      if (const auto ending = runner.job_ending())
        ending_record = {agent::to_text(*ending), agent::JobEnding::kept};
      election->resign(ending_record, [&loop] { loop.stop(); });
      loop.run();
    }
    server.close();
    // The other nodes do not wait for this one's readers.
    if (!is_all_taken(output)) let_connections_end(loop);
    if (outcome) {
      report.job = plan.job;
      report.node = plan.node;
      report.world = runner.world();
      if (const agent::WorldMember* own = report.world.member(plan.node.agent))
        report.node.node_rank = own->node_rank;
      report.outcome = *outcome;
      report.ended_unix_ms = unix_ms();
      report.log_dir = log_dir;
    }
    words = words_of_cause(report);  // before they are removed
    const auto passed_on = environment.find("TORCHELASTIC_ERROR_FILE");
    report.error_file =
        error_file_of_cause(report, words, passed_on == environment.end() ? "" : passed_on->second);
    resources = spawner.resources();
    if (leaving) agent::remove_all(resources);
    // Else the spawner's end waits until the keeper has seen that no process is left.
  }
  output.close_all();
  if (!leaving) agent::end_and_remove_all(resources, patience);

  if (outcome) {
    report.shows_last_lines = fell_here(report) && output.shows(report.outcome.cause.tail);
    report_end(report, options, output);
  } else {
    log::error("failed: the event loop ended before the job did; this is a bug in dlaunch");
  }
  bool stopped_by_signal = false;
  on_signal = [&](int signo) { stopped_by_signal = stopped_by_signal || stops(plan.node, signo); };
  const auto is_hurried = [&] {
    if (lifeline) lifeline->look();
    stopped_by_signal = stopped_by_signal || !is_heard || stop_signals.end_at_once();
    return stopped_by_signal;
  };
  // Of an agent that another dlaunch started the reader is that one, and it waits for its own.
  const auto reader_patience = options.lifeline ? std::nullopt : std::optional(options.output_timeout);
  await_readers(output.consoles(), {reader_patience, is_hurried});
  output.report_loss();
  report.dropped = {output.consoles()[0]->dropped(), output.consoles()[1]->dropped()};
  if (outcome && report.dropped.err.bytes > 0) report_end(report, options, output, true);
  if (outcome) write_reports(report, words, options, environment);
  const std::string gaps = describe_gaps(output.lost_in_files(), output.files_with_gaps(), log_dir);
  const std::string dropped = describe(report.dropped, why_dropped(stopped_by_signal, options.output_timeout),
                                       gaps.empty() ? log_dir : "");
  for (const std::string& sentence : {gaps, dropped}) {
    if (!sentence.empty()) log::warning(sentence);
  }
  await_readers(output.consoles(), {std::min(options.output_timeout, own_line_patience), is_hurried});
  log::stop();
  if (leaving) leaving->await();
  if (!outcome) return exit_error;
  return outcome->exit_code == 0 && output.lost_some() ? exit_error : outcome->exit_code;
}

int do_as_told(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (const Command* command = arguments.empty() ? nullptr : find_command(arguments[0]); command != nullptr)
    return command->run({arguments.begin() + 1, arguments.end()});

  std::string token = take_secret_variable();
  unsetenv(
      std::string(env::store_key_file).c_str());  // NOLINT(concurrency-mt-unsafe): of another job's store
  Dependencies dependencies = outside_world();
  auto parsed = parse_options(arguments, dependencies);
  if (!parsed) return fail(parsed.error());
  if (const auto* text = std::get_if<PrintAndExit>(&*parsed)) return print(text->text);
  if (const auto* wanted = std::get_if<PrintCompletion>(&*parsed)) {
    const auto script = completion_script(wanted->shell);
    return script ? print(*script) : fail(script.error());
  }
  auto& options = std::get<Options>(*parsed);
  if (options.tls) {
    if (auto can = continue_with_tls({argv, argv + argc}, token); !can) return fail(can.error());
  }
  auto secret = read_secret(options.token_file, std::move(token));
  if (!secret) return fail(secret.error());
  options.secret = std::move(*secret);
  if (auto can = check_tls(options.tls, options.secret); !can) return fail(can.error());
  const bool names_hosts = !options.hosts.empty() || !options.hostfile.empty();
  if (names_hosts && !options.lifeline) return run_on_hosts(options, dependencies);
  set_exports(options.exports, dependencies.scheduler_env.environment);
  const int lifeline_input = options.lifeline ? take_standard_input() : -1;
  auto plan = make_plan(options, collect_facts(options, dependencies.scheduler_env));
  if (!plan) return fail(plan.error());
  // Where nobody is left to speak for the job, it ends: that is then a signal like others.
  if (options.lifeline && !stops(plan->node, SIGHUP)) plan->node.stop_signals.push_back(SIGHUP);
  if (auto startable = check_program(*plan); !startable) {
    const int code = fail(startable.error());
    // Who started this dlaunch over ssh hears it from this one.
    if (!options.lifeline && !options.dry_run) {
      plan->node.agent = std::max<agent::AgentId>(random_u64(), 1);
      report_unfit_node(*plan, options.secret, options.tls, startable.error());
    }
    return code;
  }
  if (auto place = agent::check_log_dir(plan->log); !place) return fail(place.error());
  if (!options.report.empty() && !options.lifeline) {
    if (auto writable = check_writable(options.report); !writable) return fail(writable.error());
  }
  plan->node.agent = std::max<agent::AgentId>(random_u64(), 1);
  if (options.dry_run) return print(dry_run(options, *plan, dependencies.scheduler_env.environment));

  if (auto enough = check_descriptor_limit(plan->node.slots, plan->job.nnodes); !enough)
    return fail(enough.error());
  auto held = Containment::begin(argv[0], argument_area(argc, argv));
  if (!held) return fail(held.error());
  plan->node.scratch_dir = held->scratch_dir();
  plan->node.pages_dir = held->pages_dir();
  if (!options.secret.empty() && !plan->node.scratch_dir.empty()) {
    auto key_file = write_store_key(plan->node.scratch_dir, options.secret, options.tls);
    if (!key_file) return fail(key_file.error());
    plan->node.store_key_file = *key_file;
  }
  plan->node.timer_file = held->resources().timer_fifo.path;
  // From here on nothing that is set is inherited by the workers: they come from the keeper.

  // A broken pipe is an error of a write, not the end of the agent.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // so is a file that may not become larger (ulimit -f)
  raise_descriptor_limit();
  return run(std::move(*plan), options, dependencies.scheduler_env.environment, *held, lifeline_input);
}

}  // namespace
}  // namespace dlaunch::launcher

int main(int argc, char** argv) {
  using namespace dlaunch::launcher;
  sanitize_startup({argv + 1, argv + argc});
  try {
    return do_as_told(argc, argv);
  } catch (const std::system_error& e) {
    return fail(std::string("cannot go on: ") + e.what());  // there is no descriptor or thread left
  }
}
