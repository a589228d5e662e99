// The command line as a value. Every mistake is answered with one line that names it and, where there is one,
// the nearest right word.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

struct Options {
  enum class Slots { number, all_cpus, all_gpus, gpus_or_cpus };

  Slots slots_kind = Slots::number;
  int slots = 1;
  int nnodes = 1;
  int node_rank = 0;
  std::optional<std::string> master_addr;
  std::optional<std::uint16_t> master_port;
  int max_restarts = 0;
  bool standalone = false;
  std::string job_id;  // empty: none was given
  std::string role = "default";
  Duration join_timeout = std::chrono::seconds(900);
  Duration stop_timeout = std::chrono::seconds(30);
  bool module = false;
  bool no_python = false;
  bool verbose = false;
  std::vector<std::string> program;  // and its arguments, exactly as typed
};

// --help and --version: what to print; the exit code is 0.
struct JustPrint {
  std::string text;
};

// `arguments` without the program's own name. Long names may be written with underscores, values as
// --name=value or --name value. The first word that is no option, or what follows "--", begins the program.
Result<std::variant<Options, JustPrint>> parse_options(const std::vector<std::string>& arguments);

}  // namespace dlaunch::launcher
