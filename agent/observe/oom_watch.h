// Finds out if the kernel killed a process of this job because memory ran out: compares its counters with
// those at the start, and reads its log if that is allowed. One thread; reads files of the kernel, which
// takes microseconds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "agent/model/exit_status.h"
#include "agent/observe/memory_events.h"
#include "store/base/cgroup.h"

namespace dlaunch::agent {

class OomWatch {
 public:
  // Where to find the kernel's files and its log.
  struct Places {
    std::string proc = "/proc";
    std::string cgroup = "/sys/fs/cgroup";
    std::function<std::string()> kernel_log{};  // unset: the real one, if it may be read
  };

  OomWatch() : OomWatch(Places{}) {}
  explicit OomWatch(Places places) : places_(std::move(places)) {}

  // Records the counters. Earlier kills do not belong to this job.
  void begin();

  struct Finding {
    std::string cause;  // in words, also if it was killed but not by the kernel; empty: not known
    bool is_out_of_memory = false;
    bool by_another = false;             // something else than the kernel killed it
    std::optional<std::uint64_t> limit;  // of a cgroup, that was reached, in bytes

    bool operator==(const Finding&) const = default;
  };
  // REQUIRES: begin() was called, and `status` is not a success.
  Finding explain(std::int64_t pid, const ExitStatus& status);

 private:
  struct Counters {
    std::uint64_t cgroup = 0;  // killed in our cgroup
    std::uint64_t system = 0;  // killed on this machine
    bool counts_all = false;   // the kernel counts every kill on this machine
  };

  [[nodiscard]] Counters counters() const;
  [[nodiscard]] std::string file_of(const std::string& cgroup, const char* name) const;
  [[nodiscard]] Finding out_of_memory(const std::string& what_it_did, std::string cgroup) const;

  Places places_;
  std::optional<Cgroup> cgroup_;
  Counters seen_;  // kills before the job, and kills already attributed to a worker
  // Kills in our cgroup that a worker's failure has mentioned already, without being the victim. That may be
  // a worker whose end is reported later: its peers can end before the kernel has freed its memory.
  std::uint64_t mentioned_ = 0;
};

}  // namespace dlaunch::agent
