#include "agent/observe/oom_watch.h"

#include <sys/klog.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "store/base/small_file.h"

namespace dlaunch::agent {
namespace {

constexpr std::size_t longest_file = 64U * 1024;
constexpr const char* killer = "the kernel's out-of-memory killer";
constexpr const char* by_another =
    "by another process (kill -9, a scheduler, an administrator); memory had not run out";

std::string text_of(const std::string& path) {
  const auto file = read_plain_file(path, longest_file);
  return file ? file->text : "";
}

// The end of the kernel's log; empty if it may not be read.
std::string real_kernel_log() {
  constexpr int read_all = 3;  // SYSLOG_ACTION_READ_ALL
  std::string text(256U * 1024, '\0');
  const int got = klogctl(read_all, text.data(), static_cast<int>(text.size()));
  text.resize(static_cast<std::size_t>(std::max(got, 0)));
  return text;
}

bool was_killed(const ExitStatus& status) { return status.shell_code() == 128 + SIGKILL; }

}  // namespace

void OomWatch::begin() {
  cgroup_ = find_cgroup(text_of(places_.proc + "/self/cgroup"), "memory");
  // In a container the path may be the host's, though only the container's part is mounted.
  const bool visible = cgroup_ && access(file_of(cgroup_->path, "cgroup.procs").c_str(), F_OK) == 0;
  if (cgroup_ && !visible) cgroup_->path = "/";
  seen_ = counters();
  mentioned_ = seen_.cgroup;
}

OomWatch::Finding OomWatch::explain(std::int64_t pid, const ExitStatus& status) {
  const Counters now = counters();
  const bool in_cgroup = now.cgroup > seen_.cgroup;
  const bool on_machine = now.system > seen_.system;
  if (!was_killed(status)) {
    if (!in_cgroup || now.cgroup <= mentioned_) return {};
    mentioned_ = now.cgroup;
    return out_of_memory(" killed a process of this job", cgroup_->path);
  }
  if (!in_cgroup && !on_machine) {
    const bool by_signal = status.how == ExitStatus::How::signaled;
    return by_signal && now.counts_all ? Finding{by_another, false, true, std::nullopt} : Finding{};
  }
  std::string log;
  if (on_machine) {
    log = places_.kernel_log ? places_.kernel_log() : real_kernel_log();
    if (const auto kill = killed_for_memory(log, pid)) {
      if (in_cgroup) ++seen_.cgroup;
      ++seen_.system;
      const bool unnamed = kill->of_a_cgroup && kill->cgroup.empty();
      if (unnamed && !in_cgroup) return {std::string(killer) + " (the limit of a cgroup)", true, false, {}};
      return out_of_memory("", unnamed ? cgroup_->path : kill->cgroup);
    }
  }
  if (in_cgroup) {
    ++seen_.cgroup;  // one kill explains one death
    seen_.system = std::min(seen_.system + 1, now.system);
    return out_of_memory("", cgroup_->path);
  }
  if (!log.empty()) return {};  // the log would name it
  return {
      "probably " + std::string(killer) + ", which has killed processes on this machine since the job began",
      true,
      false,
      {}};
}

OomWatch::Counters OomWatch::counters() const {
  Counters counters;
  if (cgroup_) {
    const char* name = cgroup_->version == 1 ? "memory.oom_control" : "memory.events";
    counters.cgroup = oom_kills(text_of(file_of(cgroup_->path, name))).value_or(0);
  }
  const auto on_machine = oom_kills(text_of(places_.proc + "/vmstat"));
  counters.system = on_machine.value_or(0);
  counters.counts_all = on_machine.has_value();
  return counters;
}

std::string OomWatch::file_of(const std::string& cgroup, const char* name) const {
  const bool own_hierarchy = cgroup_ && cgroup_->version == 1;
  return places_.cgroup + (own_hierarchy ? "/memory" : "") + (cgroup == "/" ? "" : cgroup) + "/" + name;
}

// The lowest limit of this cgroup and its ancestors is the one that was reached.
OomWatch::Finding OomWatch::out_of_memory(const std::string& what_it_did, std::string cgroup) const {
  const char* name = cgroup_ && cgroup_->version == 1 ? "memory.limit_in_bytes" : "memory.max";
  Finding finding{"", true, false, std::nullopt};
  std::string whose;
  while (!cgroup.empty()) {
    const auto limit = memory_limit(text_of(file_of(cgroup, name)));
    if (limit && (!finding.limit || *limit < *finding.limit)) {
      finding.limit = limit;
      whose = cgroup;
    }
    if (cgroup == "/") break;
    cgroup = parent_cgroup(cgroup);
  }
  finding.cause = killer + what_it_did + " (";
  struct sysinfo machine {};
  if (finding.limit) {
    finding.cause += "limit " + in_bytes(*finding.limit) + " of cgroup " + whose;
  } else if (sysinfo(&machine) == 0) {
    finding.cause += "the machine's memory, " + in_bytes(std::uint64_t{machine.totalram} * machine.mem_unit);
  } else {
    finding.cause += "no limit of a cgroup";
  }
  finding.cause += ")";
  return finding;
}

}  // namespace dlaunch::agent
