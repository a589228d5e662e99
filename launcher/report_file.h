// How the job ended, for programs: a JSON file.
#pragma once

#include <cstdint>
#include <string>

#include "agent/job.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

struct EndFacts {
  std::int64_t began = 0;  // seconds since 1970
  std::int64_t ended = 0;
  std::string log_dir;  // empty: none
};

// Pure.
std::string report_json(const agent::JobSpec& job, const agent::NodeSpec& node, const agent::Outcome& outcome,
                        const EndFacts& facts);

// Whether write_whole could work: better known before the job than after it. Leaves nothing behind.
Result<void> check_writable(const std::string& path);
// The file is there whole, or what was there before still is.
Result<void> write_whole(const std::string& path, const std::string& text);

}  // namespace dlaunch::launcher
