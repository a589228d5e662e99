// What a node reports when the job has ended: to people, to the dlaunch that started this one, to files.
#pragma once

#include <optional>
#include <string>

#include "agent/output/output.h"
#include "launcher/options/options.h"
#include "launcher/report/report.h"

namespace dlaunch::launcher {

// Whether the job's cause is a worker of this node.
bool failed_here(const JobReport& report);

// The text of the cause's error file, with the job's exit code; none if the cause was on another node.
// REQUIRES: the scratch directory still exists.
std::optional<std::string> error_text_of_cause(const JobReport& report);

// Path of the cause's error file: kept in this job's log directory, or `passed_on`, the file of the agent
// that started this dlaunch as its worker. Empty: neither.
std::string error_file_of_cause(const JobReport& report, const std::optional<std::string>& error_text,
                                const std::string& passed_on);

// Writes the end report to `output`. `again`: only its last paragraph, because output was dropped since.
void report_end(const JobReport& report, const Options& options, agent::Output& output, bool again = false);

// Writes --report, and the error file for an agent that started this dlaunch as its worker. A file that
// cannot be written is only a warning: the job's exit code matters more.
void write_reports(const JobReport& report, const std::optional<std::string>& error_text,
                   const Options& options, const EnvironmentMap& environment);

}  // namespace dlaunch::launcher
