// What `dlaunch dump` shows: where each worker of a job on this node is. A plain value, its text for people,
// and its JSON, in which a worker's operations have the fields of PyTorch's flight recorder. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/model/collective_progress.h"
#include "agent/model/job_status.h"

namespace dlaunch::launcher {

struct ThreadDump {
  std::int64_t tid = 0;
  std::string name;
  char state = '?';         // as in /proc: R running, S sleeping, D in an uninterruptible call, T stopped
  std::string waits_in;     // a function of the kernel; empty: unknown or none
  std::string system_call;  // its number and arguments; empty: unknown or none
  std::vector<std::string> kernel_stack;  // the innermost first; empty: unknown
};

struct WorkerDump {
  agent::WorkerStatus status;
  std::int64_t pid = 0;                   // of the threads: the recording process, else the worker
  std::optional<agent::WorkerSeen> seen;  // none: the worker records nothing
  std::vector<ThreadDump> threads;        // empty: it has ended, or they were not requested
  std::string debugger;                   // the debugger that was run: "gdb"; empty: none
  std::string stacks;                     // the debugger's output
  std::string advice{};                   // how to see more of the stacks; empty: none
};

struct JobDump {
  agent::JobStatus job;
  std::vector<WorkerDump> workers;
  TimePoint now;                         // by the pages' clock
  std::vector<std::string> whole_job{};  // the coordinator's findings, over all nodes
};

// Text that others wrote is sanitized for the terminal.
std::string to_text(const JobDump& dump);
std::string to_json(const JobDump& dump);

// The input of torchfrtrace, PyTorch's analysis of flight recorders: one file for each rank that records. Its
// name gives the rank.
struct FlightFile {
  int rank = 0;
  std::string name;     // "dlaunch_rank_3"
  std::string content;  // pickled
};
std::vector<FlightFile> flight_files(const JobDump& dump);

}  // namespace dlaunch::launcher
