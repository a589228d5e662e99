// dlaunch: parses the command line, plans the job, and runs it on this node or on other hosts.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "agent/output/log_dir.h"
#include "launcher/build_commit.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/completion.h"
#include "launcher/console/command_io.h"
#include "launcher/console/stop_signals.h"
#include "launcher/flags/spelling.h"
#include "launcher/machine/collect_facts.h"
#include "launcher/machine/look_up.h"
#include "launcher/machine/machine.h"
#include "launcher/machine/mpi_proxy.h"
#include "launcher/machine/process_limits.h"
#include "launcher/machine/program_file.h"
#include "launcher/machine/sanitize_startup.h"
#include "launcher/machine/slurm_controller.h"
#include "launcher/node/containment.h"
#include "launcher/node/node_process.h"
#include "launcher/node/secret.h"
#include "launcher/node/tls.h"
#include "launcher/node/unfit_node.h"
#include "launcher/options/dry_run.h"
#include "launcher/options/options.h"
#include "launcher/options/plan.h"
#include "launcher/options/version_text.h"
#include "launcher/remote/lifeline.h"
#include "launcher/remote/relay.h"
#include "launcher/remote/remote_run.h"
#include "launcher/report/report_file.h"
#include "store/base/random.h"
#include "store/base/small_file.h"
#include "store/contract/worker_env.h"

namespace dlaunch::launcher {
namespace {

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
  // Only Kubernetes' pods need their full names.
  if (variable(dependencies, "KUBERNETES_SERVICE_HOST") || variable(dependencies, "JOB_COMPLETION_INDEX")) {
    if (auto hosts = read_small_file("/etc/hosts")) dependencies.scheduler_env.hosts_file = std::move(*hosts);
  }
  // Some versions of PBS have this file on the first node only.
  if (const auto file = variable(dependencies, "PBS_NODEFILE")) {
    if (auto nodes = read_small_file(*file)) dependencies.scheduler_env.pbs_nodes = std::move(*nodes);
  }
  if (variable(dependencies, "PMI_SIZE")) dependencies.scheduler_env.mpi_run = hydra_proxy();
  dependencies.scheduler_env.can_look_up = can_look_up;
  dependencies.scheduler_env.show_slurm_node = [](const std::string& node) { return show_slurm_node(node); };
  return dependencies;
}

// Sets the variables for this dlaunch's own workers, which inherit them.
void set_exports(const std::vector<std::string>& exports, EnvironmentMap& environment) {
  for (const std::string& one : exports) {
    const std::size_t equals = one.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = one.substr(0, equals);
    environment[name] = one.substr(equals + 1);
    setenv(name.c_str(), environment[name].c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  }
}

// Suggests a program of a similar name.
Error not_there(Error error, const std::string& program) {
  const bool is_missing = error.hint.starts_with("check ");
  const std::string near = is_missing ? similar_program(program) : "";
  return near.empty() ? std::move(error) : std::move(error).with_hint("did you mean " + near + "?");
}

// For a missing program: it may be a command of dlaunch, misspelt or not in the first place.
Error missing_program(Error error, const std::string& program) {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.push_back(command.name);
  const std::string near = nearest(program, names);
  if (near.empty()) return not_there(std::move(error), program);
  return std::move(error).with_hint(near == program ? "write the command first: dlaunch " + near + " ..."
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

// From the plan to the exit code. `lifeline_input`: with --lifeline, what was standard input.
int run(JobPlan plan, const Options& options, const EnvironmentMap& environment, Containment& containment,
        int lifeline_input) {
  auto files = open_output_files(plan, options);
  if (!files) return fail(files.error());
  NodeProcess node(std::move(plan), std::move(*files), {options, environment, containment, lifeline_input});
  if (auto opened = node.open_endpoints(); !opened) return fail(opened.error());
  node.make_runner();
  node.watch_signals();
  if (auto started = node.start(); !started) return fail(started.error());
  node.run();
  return node.finish();
}

// Checks that all that the job needs is there, before anything is created. Returns an exit code if the job
// cannot start.
std::optional<int> check_startable(JobPlan& plan, const Options& options) {
  if (auto startable = check_program(plan); !startable) {
    const int code = fail(startable.error());
    // With --lifeline, the dlaunch that started this one reports it.
    if (!options.lifeline && !options.dry_run)
      report_unfit_node(plan, options.secret, options.tls, startable.error());
    return code;
  }
  if (auto writable = agent::check_log_dir(plan.log); !writable) return fail(writable.error());
  if (!options.report.empty() && !options.lifeline) {
    if (auto writable = check_writable(options.report); !writable) return fail(writable.error());
  }
  return std::nullopt;
}

// Creates what holds the job's processes together, and enters it in the plan.
Result<Containment> contain(JobPlan& plan, const Options& options, int argc, char** argv) {
  auto containment = Containment::begin(argv[0], argument_area(argc, argv));
  if (!containment) return containment;
  plan.node.scratch_dir = containment->scratch_dir();
  plan.node.pages_dir = containment->pages_dir();
  if (!options.secret.empty() && !plan.node.scratch_dir.empty()) {
    auto key_file = write_store_key(plan.node.scratch_dir, options.secret, options.tls);
    if (!key_file) return key_file.error();
    plan.node.store_key_file = *key_file;
  }
  plan.node.timer_file = containment->resources().timer_fifo.path;
  return containment;
}

int run_on_this_node(const Options& options, Dependencies& dependencies, int argc, char** argv) {
  EnvironmentMap& environment = dependencies.scheduler_env.environment;
  set_exports(options.exports, environment);
  const int lifeline_input = options.lifeline ? take_standard_input() : -1;
  auto plan = make_plan(options, collect_facts(options, dependencies.scheduler_env));
  if (!plan) return fail(plan.error());
  // The lost lifeline ends the job as this signal does.
  if (options.lifeline && !StopSignals(plan->node.stop_signals).contains(SIGHUP))
    plan->node.stop_signals.push_back(SIGHUP);
  plan->node.agent = std::max<agent::AgentId>(random_u64(), 1);
  if (const auto code = check_startable(*plan, options)) return *code;
  if (options.dry_run) return print(dry_run(options, *plan, environment));

  if (auto enough = check_descriptor_limit(plan->node.slots, plan->job.nnodes); !enough)
    return fail(enough.error());
  auto containment = contain(*plan, options, argc, argv);
  if (!containment) return fail(containment.error());
  // The workers come from the keeper, so they inherit nothing that is set from here on.

  std::signal(SIGPIPE, SIG_IGN);  // a broken pipe is an error of a write, not the end of the agent
  std::signal(SIGXFSZ, SIG_IGN);  // so is a file that may not become larger (ulimit -f)
  raise_descriptor_limit();
  return run(std::move(*plan), options, environment, *containment, lifeline_input);
}

// Reads the secret into `options`, or continues as the program that has TLS.
Result<void> take_secret(Options& options, std::string token, int argc, char** argv) {
  if (options.tls) {
    if (auto can = continue_with_tls({argv, argv + argc}, token); !can) return can;
  }
  auto secret = read_secret(options.token_file, std::move(token));
  if (!secret) return std::move(secret).error();
  options.secret = std::move(*secret);
  return check_tls(options.tls, options.secret);
}

int run_as_parsed(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (const Command* command = arguments.empty() ? nullptr : find_command(arguments[0]); command != nullptr)
    return command->run({arguments.begin() + 1, arguments.end()});

  // As a dlaunch on another machine has started this one, not a user.
  constexpr std::string_view relay = "--relay=";
  if (arguments.size() == 1 && arguments[0].starts_with(relay))
    return run_relay(arguments[0].substr(relay.size()));

  std::string token = take_secret_variable();
  // It belongs to another job's store.
  unsetenv(std::string(env::store_key_file).c_str());  // NOLINT(concurrency-mt-unsafe): one thread
  Dependencies dependencies = outside_world();
  auto parsed = parse_options(arguments, dependencies);
  if (!parsed) return fail(parsed.error());
  if (const auto* text = std::get_if<PrintAndExit>(&*parsed)) return print(text->text);
  if (std::holds_alternative<PrintVersion>(*parsed))
    return print(version_text(DLAUNCH_VERSION, build_commit));
  if (const auto* wanted = std::get_if<PrintCompletion>(&*parsed)) {
    const auto script = completion_script(wanted->shell);
    return script ? print(*script) : fail(script.error());
  }
  auto& options = std::get<Options>(*parsed);
  if (auto taken = take_secret(options, std::move(token), argc, argv); !taken) return fail(taken.error());
  const bool names_hosts = !options.hosts.empty() || !options.hostfile.empty();
  if (names_hosts && !options.lifeline) return run_on_hosts(options, dependencies);
  return run_on_this_node(options, dependencies, argc, argv);
}

}  // namespace
}  // namespace dlaunch::launcher

int main(int argc, char** argv) {
  using namespace dlaunch::launcher;
  sanitize_startup({argv + 1, argv + argc});
  try {
    return run_as_parsed(argc, argv);
  } catch (const std::system_error& e) {
    return fail(std::string("cannot continue: ") + e.what());  // there is no descriptor or thread left
  }
}
