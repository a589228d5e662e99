#include "launcher/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "launcher/spelling.h"

namespace dlaunch::launcher {
namespace {

constexpr const char* usage_hint = "see dlaunch --help";
constexpr int most_workers = 65'536;
constexpr int most_nodes = 65'536;

Error usage(std::string what, std::string why = "", std::string hint = usage_hint) {
  return {ErrorKind::invalid, std::move(what), "", std::move(why), std::move(hint)};
}

// The values as typed; they are converted after parsing, so that each mistake gets a sentence of its own.
struct Raw {
  std::string nproc_per_node = "1";
  std::string nnodes = "1";
  std::string node_rank = "0";
  std::string master_addr;
  std::string master_port;
  std::string max_restarts = "0";
  std::string job_id;
  std::string role = "default";
  std::string join_timeout = "900";
  std::string stop_timeout = "30";
  bool standalone = false;
  bool module = false;
  bool no_python = false;
  bool verbose = false;
  bool version = false;
};

constexpr const char* description =
    "dlaunch starts the processes of a distributed job on this machine or on several, watches them, and "
    "restarts\n"
    "them when one fails. Every worker gets torchrun's environment (RANK, LOCAL_RANK, WORLD_SIZE, "
    "MASTER_ADDR, ...),\n"
    "so C++ programs that use libdlaunch and PyTorch scripts run as they are.\n\n"
    "  dlaunch --nproc-per-node=4 ./train --epochs=10\n"
    "  dlaunch --nproc-per-node=2 train.py\n"
    "  dlaunch --nproc-per-node=8 --nnodes=2 --node-rank=0 --master-addr=10.0.0.1 ./train    (on the first "
    "host)\n"
    "  dlaunch --nproc-per-node=8 --nnodes=2 --node-rank=1 --master-addr=10.0.0.1 ./train    (on the "
    "second)\n\n"
    "Usage: dlaunch [options] program [arguments ...]\n"
    "       dlaunch status|top|stop|doctor|store ...    jobs and this machine; each has its own --help";

constexpr const char* footer =
    "Everything after the program belongs to the program. A program whose name ends in .py is started with\n"
    "python3 -u (PYTHON_EXEC overrides). Exit code: 0 when every worker returned 0, otherwise that of the "
    "first that\n"
    "failed (128 + n for signal n); 2 for a mistake on the command line, 1 for other errors of dlaunch "
    "itself.\n"
    "Manual: man dlaunch";

void declare(CLI::App& app, Raw& raw) {
  const char* where = "Workers and nodes";
  app.add_option("--nproc-per-node", raw.nproc_per_node,
                 "workers on this node: a number, cpu, gpu, or auto (GPUs, else CPUs) [1]")
      ->type_name("N|auto|cpu|gpu")
      ->group(where);
  app.add_option("--nnodes", raw.nnodes, "nodes of the job [1]")->type_name("N")->group(where);
  app.add_option("--node-rank", raw.node_rank,
                 "number of this node, 0 to nnodes-1; node 0 serves the store [0]")
      ->type_name("N")
      ->group(where);
  app.add_option("--master-addr", raw.master_addr, "host of node 0, as all nodes reach it [127.0.0.1]")
      ->type_name("HOST")
      ->group(where);
  app.add_option("--master-port", raw.master_port, "port on node 0 [one node: a free one; several: 29500]")
      ->type_name("PORT")
      ->group(where);
  app.add_flag("--standalone", raw.standalone, "one node, a free port, whatever else is said")->group(where);
  app.add_option("--rdzv-id", raw.job_id, "the job's id; nodes with another id are refused [none]")
      ->type_name("ID")
      ->group(where);
  app.add_option("--role", raw.role, "name of the workers' role (ROLE_NAME) [default]")
      ->type_name("NAME")
      ->group(where);

  const char* failure = "Failure and end";
  app.add_option("--max-restarts", raw.max_restarts,
                 "restarts of all workers together, over the job's life [0]")
      ->type_name("N")
      ->group(failure);
  app.add_option("--join-timeout", raw.join_timeout, "seconds that nodes wait for each other [900]")
      ->type_name("S")
      ->group(failure);
  app.add_option("--stop-timeout", raw.stop_timeout,
                 "seconds from the signal that stops workers to SIGKILL [30]")
      ->type_name("S")
      ->group(failure);

  const char* program = "Program";
  app.add_flag("-m,--module", raw.module, "the program is a Python module: python3 -u -m")->group(program);
  app.add_flag("--no-python", raw.no_python, "start the program itself, also where its name ends in .py")
      ->group(program);

  const char* other = "Other";
  app.add_flag("-v,--verbose", raw.verbose, "say more of what is done")->group(other);
  app.add_flag("--version", raw.version, "print the version")->group(other);
  app.set_help_flag("-h,--help", "print this help")->group(other);
}

// The description says how to call dlaunch, better than a generated line.
class HelpFormat final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override { return ""; }
};

// CLI11 leaves two empty lines between groups; one is enough.
std::string help_text(const CLI::App& app) {
  std::string text = app.help();
  for (auto at = text.find("\n\n\n"); at != std::string::npos; at = text.find("\n\n\n", at))
    text.erase(at, 1);
  return text;
}

// --nproc_per_node is --nproc-per-node; a value keeps its underscores.
std::string with_dashes(const std::string& token) {
  if (!token.starts_with("--")) return token;
  std::string out = token;
  const auto end = out.begin() + static_cast<std::ptrdiff_t>(std::min(out.find('='), out.size()));
  std::replace(out.begin() + 2, end, '_', '-');
  return out;
}

struct Split {
  std::vector<std::string> own;
  std::vector<std::string> program;
};

// Where the options of dlaunch end and the program begins. CLI11 parses the first part; the second is not
// looked at.
Result<Split> split(const CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  Split split;
  std::size_t i = 0;
  for (; i < arguments.size(); ++i) {
    const std::string token = with_dashes(arguments[i]);
    if (token == "--") {
      ++i;
      break;
    }
    if (token.size() < 2 || token[0] != '-') break;
    const std::string name = token.substr(0, token.find('='));
    const CLI::Option* option = app.get_option_no_throw(name);
    if (!option) {
      const std::string near = nearest(name, known);
      return usage("unknown option " + name, "", near.empty() ? usage_hint : "did you mean " + near + "?");
    }
    split.own.push_back(token);
    const bool wants_value = option->get_expected_min() > 0 && name == token;
    if (!wants_value) continue;
    if (i + 1 == arguments.size()) return usage(name + " needs a value");
    split.own.push_back(arguments[++i]);
  }
  split.program.assign(arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
  return split;
}

Result<int> number(const char* name, const std::string& text, int least, int most) {
  int value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size())
    return usage(std::string(name) + ": '" + text + "' is not a number");
  if (value < least || value > most) {
    return usage(std::string(name) + ": " + text + " is out of range", "",
                 "it goes from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return value;
}

Result<Duration> seconds(const char* name, const std::string& text) {
  constexpr double most = 7.0 * 24 * 3600;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value))
    return usage(std::string(name) + ": '" + text + "' is not a number of seconds");
  if (value < 0 || value > most)
    return usage(std::string(name) + ": " + text + " is out of range", "", "it goes from 0 to 604800 s");
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

Result<void> take_slots(const std::string& text, Options& options) {
  if (text == "auto") {
    options.slots_kind = Options::Slots::gpus_or_cpus;
  } else if (text == "cpu") {
    options.slots_kind = Options::Slots::all_cpus;
  } else if (text == "gpu") {
    options.slots_kind = Options::Slots::all_gpus;
  } else {
    auto n = number("--nproc-per-node", text, 1, most_workers);
    if (!n) {
      return std::move(n).error().with_hint("give a number from 1 to " + std::to_string(most_workers) +
                                            ", auto, cpu or gpu");
    }
    options.slots = *n;
  }
  return {};
}

// "2" or "2:2".
Result<int> fixed_nodes(const std::string& text) {
  const auto colon = text.find(':');
  auto least = number("--nnodes", text.substr(0, colon), 1, most_nodes);
  if (!least || colon == std::string::npos) return least;
  auto most = number("--nnodes", text.substr(colon + 1), 1, most_nodes);
  if (!most) return most;
  if (*least > *most)
    return usage("--nnodes=" + text + ": the smallest number of nodes is larger than the largest");
  if (*least < *most) {
    return usage("--nnodes=" + text + ": a job whose size may change is not supported by this version", "",
                 "give one number of nodes");
  }
  return least;
}

Result<Options> convert(const Raw& raw) {
  Options options;
  if (auto done = take_slots(raw.nproc_per_node, options); !done) return std::move(done).error();
  auto nnodes = fixed_nodes(raw.nnodes);
  if (!nnodes) return std::move(nnodes).error();
  options.nnodes = *nnodes;
  auto node_rank = number("--node-rank", raw.node_rank, 0, std::numeric_limits<int>::max());
  if (!node_rank) return std::move(node_rank).error();
  options.node_rank = *node_rank;
  auto max_restarts = number("--max-restarts", raw.max_restarts, 0, 1'000'000);
  if (!max_restarts) return std::move(max_restarts).error();
  options.max_restarts = *max_restarts;
  auto join_timeout = seconds("--join-timeout", raw.join_timeout);
  if (!join_timeout) return std::move(join_timeout).error();
  options.join_timeout = *join_timeout;
  auto stop_timeout = seconds("--stop-timeout", raw.stop_timeout);
  if (!stop_timeout) return std::move(stop_timeout).error();
  options.stop_timeout = *stop_timeout;
  if (!raw.master_addr.empty()) options.master_addr = raw.master_addr;
  if (!raw.master_port.empty()) {
    auto port = number("--master-port", raw.master_port, 0, 65535);
    if (!port) return std::move(port).error();
    options.master_port = static_cast<std::uint16_t>(*port);
  }
  options.standalone = raw.standalone;
  options.job_id = raw.job_id;
  options.role = raw.role;
  options.module = raw.module;
  options.no_python = raw.no_python;
  options.verbose = raw.verbose;

  if (options.standalone) {
    options.nnodes = 1;
    options.node_rank = 0;
    options.master_addr.reset();
    options.master_port.reset();
  }
  if (options.node_rank >= options.nnodes) {
    return usage("--node-rank=" + raw.node_rank + " is outside --nnodes=" + std::to_string(options.nnodes),
                 "",
                 options.nnodes == 1 ? "say how many nodes there are with --nnodes"
                                     : "node ranks go from 0 to " + std::to_string(options.nnodes - 1));
  }
  if (options.nnodes > 1 && options.master_port == 0) {
    return usage("--master-port=0: several nodes cannot find a port that is not named");
  }
  if (options.module && options.no_python) return usage("--module and --no-python exclude each other");
  return options;
}

}  // namespace

Result<std::variant<Options, JustPrint>> parse_options(const std::vector<std::string>& arguments) {
  Raw raw;
  CLI::App app(description);
  app.formatter(std::make_shared<HelpFormat>());
  app.get_formatter()->column_width(36);
  declare(app, raw);
  app.footer(footer);

  auto parts = split(app, arguments);
  if (!parts) return std::move(parts).error();
  try {
    std::vector<std::string> reversed(parts->own.rbegin(), parts->own.rend());
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    return std::variant<Options, JustPrint>(JustPrint{help_text(app)});
  } catch (const CLI::ParseError& mistake) {
    return usage(mistake.what());
  }
  if (raw.version) return std::variant<Options, JustPrint>(JustPrint{"dlaunch " DLAUNCH_VERSION "\n"});

  auto options = convert(raw);
  if (!options) return std::move(options).error();
  options->program = std::move(parts->program);
  if (options->program.empty())
    return usage("no program given", "", "say what to start: dlaunch [options] program [arguments ...]");
  return std::variant<Options, JustPrint>(std::move(*options));
}

}  // namespace dlaunch::launcher
