// The job that the user wants, as a value: from the command line, the environment, a file and the scheduler.
// Each mistake is reported in one line that names it, its source and, if there is one, the nearest known
// word. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/model/job.h"
#include "agent/model/log_options.h"
#include "launcher/flags/settings.h"
#include "launcher/options/lifeline_terms.h"
#include "launcher/scheduler/scheduler.h"
#include "store/base/address.h"
#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

// How workers are bound to CPUs. The first four are --bind's; torchrun's --numa-binding adds the others.
enum class Bind : std::uint8_t { none, core, numa, gpu, node, socket, exclusive, core_complex };

// Which way to find the other ranks is offered to MPI programs; `automatic`: by the program's libraries.
enum class Mpi : std::uint8_t { automatic, pmi, pmix, none };

// The field names of the objects that --events writes.
enum class EventsFormat : std::uint8_t { dlaunch, torchelastic };

// Where agents meet.
struct Endpoint {
  std::string host;
  std::optional<std::uint16_t> port;  // none: the backend's default

  bool operator==(const Endpoint&) const = default;
};

// The job before any flag is given.
inline agent::JobSpec default_job() {
  agent::JobSpec job;
  job.min_nodes = 1;
  job.policy.first_delay = std::chrono::seconds(1);
  job.join_timeout = std::chrono::seconds(900);
  job.stop_timeout = {std::chrono::seconds(30)};
  return job;
}

// The node before any flag is given.
inline agent::NodeSpec default_node() {
  agent::NodeSpec node;
  node.preempt_notice = std::chrono::seconds(30);
  return node;
}

struct Options {
  enum class Slots { number, all_cpus, accelerators, gpus_or_cpus };
  enum class Backend { fixed, c10d, etcd, etcd_v2 };  // `fixed` is --rdzv-backend=static

  // What flags set directly. make_plan() adds what depends on the machine or on several flags.
  agent::JobSpec job = default_job();     // an empty id: none was given
  agent::NodeSpec node = default_node();  // `slots`: with Slots::number

  Slots slots_kind = Slots::number;
  std::string accelerator;  // with Slots::accelerators: which are counted, as --nproc-per-node names them

  std::optional<int> node_rank;  // below job.nnodes
  std::optional<std::string> master_addr;
  std::optional<std::uint16_t> master_port;
  std::optional<std::string> local_addr;
  bool standalone = false;
  Backend backend = Backend::fixed;
  std::vector<Endpoint> endpoints;       // empty: none was given
  std::string etcd_prefix = "/dlaunch";  // of the keys
  std::optional<bool>
      hosts_endpoint;  // whether this node serves it; none: if it is an address of this machine

  // If one of the first two is not empty, this dlaunch starts the job on other hosts.
  std::string hosts;     // as listed
  std::string hostfile;  // a path
  std::vector<std::string> ssh{"ssh"};
  int tree_width = 64;                    // 0: no tree
  std::vector<std::string> exports;       // NAME or NAME=VALUE, the last of a name counts
  std::optional<LifelineTerms> lifeline;  // this dlaunch was started so

  bool module = false;
  Mpi mpi = Mpi::automatic;
  bool no_python = false;
  bool run_path = false;
  bool pass_local_rank = false;
  bool env_defaults = true;

  agent::LogOptions log;
  bool pty = false;  // each worker has a terminal of its own
  Bind bind = Bind::none;
  std::optional<std::uint64_t> store_max_total;  // bytes; none: derived from this process's memory
  std::string secret;                            // of the job; empty: none
  std::string token_file;                        // a path
  bool tls = false;                              // encrypts agents, and the store's clients on other hosts
  std::string report;                            // a file; empty: none
  std::string events;                            // a file; empty: none
  bool events_on_console = false;
  EventsFormat events_format = EventsFormat::dlaunch;
  Duration output_timeout = std::chrono::seconds(5);
  bool dry_run = false;
  bool verbose = false;
  std::vector<std::string> program;  // and its arguments, exactly as typed

  Settings settings;                  // the source of each of these, for --verbose
  std::vector<std::string> notices;   // at start: what a scheduler decided
  std::vector<std::string> warnings;  // settings without the effect that they seem to have
};

// --help: what to print; the exit code is 0.
struct PrintAndExit {
  std::string text;
};

// --version: print it (launcher/options/version_text.h); the exit code is 0.
struct PrintVersion {};

// --print-completion: print the script for this shell (launcher/commands/completion.h); the exit code is 0.
struct PrintCompletion {
  std::string shell;
};

struct Dependencies {
  SchedulerEnvironment scheduler_env;
  std::function<Result<std::string>(const std::string& path)> read_file;  // for --config
};

// `arguments`: without dlaunch's own name. By precedence: the command line, the environment, --config, the
// scheduler. With --lifeline only the command line counts: the dlaunch that wrote it has read the others.
using ParsedOptions = std::variant<Options, PrintAndExit, PrintVersion, PrintCompletion>;
Result<ParsedOptions> parse_options(const std::vector<std::string>& arguments,
                                    const Dependencies& dependencies);

// Every flag with its value and where that came from, one a line.
std::string describe_settings(const Options& options);

}  // namespace dlaunch::launcher
