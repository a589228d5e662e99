// Whether the kernel killed a process of ours because memory ran out: its counters now against those at the
// start, and its log where it may be read. One thread; reads files of the kernel, which takes microseconds.
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
  // Where the kernel shows itself.
  struct Places {
    std::string proc = "/proc";
    std::string cgroup = "/sys/fs/cgroup";
    std::function<std::string()> kernel_log{};  // unset: the real one, as far as it may be read
  };

  OomWatch() : OomWatch(Places{}) {}
  explicit OomWatch(Places places) : places_(std::move(places)) {}

  // Notes the counters. What happened before is not ours.
  void begin();

  // In words, also where it was killed and the kernel did not do it; empty: nothing is known. REQUIRES:
  // begin() was called, and `status` is no success.
  std::string explain(std::int64_t pid, const ExitStatus& status);

 private:
  struct Counters {
    std::uint64_t cgroup = 0;  // killed in our cgroup
    std::uint64_t system = 0;  // killed on this machine
    bool counts_all = false;   // the kernel tells of every kill on this machine
  };

  [[nodiscard]] Counters counters() const;
  [[nodiscard]] std::string file_of(const std::string& cgroup, const char* name) const;
  [[nodiscard]] std::string describe_limit(std::string cgroup) const;

  Places places_;
  std::optional<Cgroup> cgroup_;
  Counters seen_;  // and accounted for
};

}  // namespace dlaunch::agent
