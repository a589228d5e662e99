// What an agent learns of workers that record nothing, when the job may hang: `dlaunch dump --inspect`, which
// the agent starts (launcher/node/inspector.h), because asking and debugging take seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/model/worker_records.h"

namespace dlaunch::launcher {

// Its words after --inspect.
struct InspectionOrder {
  std::string scratch_dir;  // of the workers' sockets
  std::string folder;       // for the flight records; it exists
  std::uint32_t round = 0;
  int world_size = 0;
  std::vector<agent::WorkerHere> workers;
};
std::optional<InspectionOrder> parse_inspection(const std::vector<std::string>& words);

// Writes frames of the agents' protocol to stdout: first one Inspected, then Notices for the user. Asks each
// worker for its flight record, and looks at the stacks of a few: in less than a quarter of a minute.
int run_inspection(const std::vector<std::string>& words);

// Pure. Ranks with the same stack share a sentence: "ranks 0 and 2 are in wait (x.py:3) < main (x.py:9)".
struct RankStack {
  int rank = 0;
  std::vector<std::string> frames;  // the innermost first
  std::string from;                 // "py-spy"
};
std::vector<std::string> describe(const std::vector<RankStack>& stacks);

}  // namespace dlaunch::launcher
