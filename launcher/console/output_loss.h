// Messages about output that its readers did not take. Pure.
#pragma once

#include <string>

#include "launcher/report/report.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

// How long to wait for the reader to take dlaunch's own last line, after the wait for the workers' output.
inline constexpr Duration own_line_patience = std::chrono::seconds(1);

// The reason, for describe().
std::string why_dropped(bool hurried, Duration patience);

// A sentence; empty: everything was written. `why`: the error of the last write that failed (errno).
std::string describe_gaps(const agent::Dropped& lost, int files, int why, const std::string& log_dir,
                          const std::string& host);

// A sentence; empty: everything was taken. `log_dir`: where log files have all of it; empty: there are none.
std::string describe(const DroppedOutput& dropped, const std::string& why, const std::string& log_dir);

}  // namespace dlaunch::launcher
