// A worker exit: what is known of a worker's end, gathered right after it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/model/exit_status.h"
#include "store/base/time.h"

namespace dlaunch::agent {

// What the worker's page records about its end.
struct ExitRecord {
  int blamed_rank = -1;       // the rank in the job whose end broke its groups; -1: none
  std::string blamed_for;     // what that rank did: "left the group at all_reduce #258 of group default"
  bool in_exception = false;  // it left its own groups while an exception was on its way

  bool operator==(const ExitRecord&) const = default;
};

struct WorkerExit {
  ExitStatus status;
  std::string tail;  // the last lines it wrote to stderr; if it wrote none, to stdout
  bool tail_is_of_stdout = false;
  std::string tail_at_signal;  // the last of these lines when it was last signalled; empty: it was not
  std::string exception;       // "ValueError: no such file": a line of the error file it wrote
  std::string traceback;       // the last lines of the error file's traceback; or its stack when it crashed
  std::string hint;            // what else is known of the cause: "the kernel's out-of-memory killer (...)"
  std::string remedy;          // what the user can try next: "raise the memory limit of 2 GiB, or ..."
  std::uint64_t most_memory = 0;  // the most bytes it, or a descendant that it waited for, held; 0: unknown
  std::string log_file;           // the path of its log file, on its host
  std::optional<Duration> since_exception;  // from the exception to the end; none: no error file
  std::int64_t unix_ms = 0;                 // time of the exception, else of the end, by this host's clock
  ExitRecord exit_record;

  bool operator==(const WorkerExit&) const = default;
};

}  // namespace dlaunch::agent
