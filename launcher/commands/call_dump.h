// A worker's remote calls in `dlaunch dump`: for people, and as JSON. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "agent/model/worker_record.h"

namespace dlaunch::launcher {

// "remote calls of rank 0 (worker trainer): ..." and a line for each that is under way, a few dozen at most;
// empty: it has no remote calls. `now_ns`: by the page's clock.
std::string calls_text(const agent::WorkerRecord& record, std::int64_t now_ns);

// With the latest calls. REQUIRES: it has remote calls.
nlohmann::ordered_json calls_json(const agent::WorkerRecord& record);

}  // namespace dlaunch::launcher
