// Where each worker of this node's part of a job is: what `dlaunch dump` shows. A plain value, its text for
// people, and its JSON, in which a worker's operations have the fields of PyTorch's flight recorder. Pure.
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
  char state =
      '?';  // as /proc has it: R running, S sleeping, D in a call that cannot be interrupted, T stopped
  std::string waits_in;                   // a function of the kernel; empty: not known, or in none
  std::string system_call;                // its number and arguments; empty: not known, or in none
  std::vector<std::string> kernel_stack;  // the innermost first; empty: not known
};

struct WorkerDump {
  agent::WorkerStatus status;
  std::int64_t pid = 0;                   // whose threads these are: the one that records, else the worker
  std::optional<agent::WorkerSeen> seen;  // none: it records nothing
  std::vector<ThreadDump> threads;        // empty: it is gone, or they were not asked for
  std::string debugger;                   // that was asked for its stacks: "gdb"; empty: none
  std::string stacks;                     // what that said
  std::string advice{};                   // how more of it would be seen; empty: there is none
};

struct JobDump {
  agent::JobStatus job;
  std::vector<WorkerDump> workers;
  TimePoint now;                         // by the pages' clock
  std::vector<std::string> whole_job{};  // findings of the coordinator, where it was told of all nodes
};

// What others wrote is made printable.
std::string to_text(const JobDump& dump);
std::string to_json(const JobDump& dump);

// What torchfrtrace, PyTorch's analysis of flight recorders, reads: a file for each rank that records, with
// the name that it finds the rank by.
struct FlightFile {
  int rank = 0;
  std::string name;     // "dlaunch_rank_3"
  std::string content;  // pickled
};
std::vector<FlightFile> flight_files(const JobDump& dump);

}  // namespace dlaunch::launcher
