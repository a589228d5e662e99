#include "launcher/doctor/machine_checks.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "agent/process/job_cgroup.h"
#include "launcher/doctor/debugging.h"
#include "launcher/doctor/gpu_verdict.h"
#include "launcher/machine/local_addresses.h"
#include "launcher/machine/machine.h"
#include "launcher/machine/program_output.h"
#include "store/base/address.h"
#include "store/base/text.h"

namespace dlaunch::launcher {
namespace {

using Grade = Finding::Grade;

constexpr std::uint64_t enough_shared_memory = 1ULL << 30;
constexpr std::uint64_t enough_temporary_space = 100ULL << 20;
constexpr rlim_t enough_files = 4096;
constexpr rlim_t enough_processes = 4096;
constexpr long enough_backlog = 1024;

std::string describe_size(std::uint64_t bytes) {
  constexpr std::uint64_t gib = 1ULL << 30;
  return bytes >= 10 * gib ? std::to_string(bytes / gib) + " GiB" : std::to_string(bytes >> 20) + " MiB";
}

std::string describe_limit(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit);
}

// --- names and addresses ---

std::set<std::string> resolved(const std::string& name, std::string& why) {
  std::set<std::string> addresses;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  const int failed = getaddrinfo(name.c_str(), nullptr, &hints, &first);
  if (failed != 0) {
    why = gai_strerror(failed);
    return addresses;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(first, freeaddrinfo);
  for (const addrinfo* one = first; one != nullptr; one = one->ai_next) {
    if (std::string address = numeric(one->ai_addr); !address.empty()) addresses.insert(std::move(address));
  }
  return addresses;
}

void check_names(Findings& out) {
  const std::string host = host_name();
  std::string why;
  const std::set<std::string> named = resolved(host, why);
  const std::set<std::string> own = local_addresses();
  if (named.empty()) {
    out.push_back(
        {Grade::note, "host name " + host + " does not resolve (" + why + ")",
         "for jobs on several hosts add it to DNS or /etc/hosts, or use addresses for --master-addr"});
  } else {
    bool reachable = false;
    bool foreign = false;
    for (const std::string& address : named) {
      if (!own.contains(address)) foreign = true;
      if (own.contains(address) && !is_loopback(address)) reachable = true;
    }
    const std::string text = "host name " + host + " resolves to " + join(named, ", ");
    if (reachable) {
      out.push_back({Grade::ok, text, ""});
    } else if (foreign) {
      out.push_back(
          {Grade::note, text + ", which this machine does not have",
           "workers that use this name would connect to another machine; check DNS and /etc/hosts"});
    } else {
      out.push_back({Grade::note, text + ", which other hosts cannot reach",
                     "if this host is the --master-addr, give its address, or correct /etc/hosts"});
    }
  }
  if (resolved("localhost", why).empty()) {
    out.push_back({Grade::bad, "localhost does not resolve", "add '127.0.0.1 localhost' to /etc/hosts"});
  }
}

void check_port(Findings& out) {
  // Tries both families, as a server for all interfaces does.
  const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int other = fd < 0 ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : fd;
  const int on = 1;
  setsockopt(other, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(usual_port);
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(usual_port);
  const bool bound = fd >= 0 ? bind(fd, reinterpret_cast<const sockaddr*>(&v6), sizeof v6) == 0
                             : bind(other, reinterpret_cast<const sockaddr*>(&v4), sizeof v4) == 0;
  const int why = errno;
  if (other >= 0) close(other);
  const std::string text = "port " + std::to_string(usual_port);
  if (bound) {
    out.push_back({Grade::ok, text + " (the default of jobs on several hosts) is free", ""});
  } else {
    out.push_back({Grade::note, "cannot listen on " + text + " (" + std::strerror(why) + ")",
                   "for a job on several hosts with node 0 here, choose another --master-port"});
  }
}

// --- the machine ---

void check_space(Findings& out, const std::string& folder, std::uint64_t enough, const std::string& to_do) {
  struct statvfs info {};
  if (statvfs(folder.c_str(), &info) != 0) {
    out.push_back({Grade::bad, folder + ": " + std::strerror(errno), to_do});
    return;
  }
  const std::uint64_t free = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  const std::string text = folder + " has " + describe_size(free) + " free";
  if (access(folder.c_str(), W_OK) != 0) {
    out.push_back({Grade::bad, "cannot write to " + folder + ": " + std::strerror(errno), to_do});
  } else if (free < enough) {
    out.push_back({Grade::note, text, to_do});
  } else {
    out.push_back({Grade::ok, text, ""});
  }
}

// The hard limit counts: dlaunch raises its own soft limit, and workers may raise theirs.
void check_limit(Findings& out, __rlimit_resource which, const std::string& name, const std::string& flag,
                 rlim_t enough) {
  rlimit limit{};
  if (getrlimit(which, &limit) != 0) return;
  const std::string text =
      name + ": " + describe_limit(limit.rlim_cur) + ", at most " + describe_limit(limit.rlim_max);
  if (limit.rlim_max < enough) {
    out.push_back(
        {Grade::note, text, "raise it for large jobs (ulimit " + flag + ", /etc/security/limits.conf)"});
  } else {
    out.push_back({Grade::ok, text, ""});
  }
}

// Makes a cgroup as for a job, and removes it again.
void check_containment(Findings& out) {
  const auto cgroup = agent::make_job_cgroup(getpid());
  if (cgroup) {
    agent::remove_job_cgroup(*cgroup);
    out.push_back({Grade::ok,
                   "dlaunch ends all processes of a job at once, through a cgroup in " +
                       cgroup->path.substr(0, cgroup->path.rfind('/')),
                   ""});
  } else {
    Error error = cgroup.error();
    const std::string to_do = std::exchange(error.hint, "");
    out.push_back({Grade::note,
                   "dlaunch ends the processes of a job one by one (" + error.message() +
                       "); if dlaunch, dl-guard and dl-keeper are killed together, workers may remain",
                   to_do.empty() ? "mount cgroup v2" : to_do});
  }
}

std::optional<long> number_in(const std::string& path) {
  std::ifstream file(path);
  long value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

void check_kernel(Findings& out) {
  utsname name{};
  uname(&name);
  out.push_back({Grade::ok,
                 std::string("Linux ") + name.release + ", " + std::to_string(allowed_cpus().size()) +
                     " processors for this user's jobs",
                 ""});
  if (const auto backlog = number_in("/proc/sys/net/core/somaxconn"); backlog && *backlog < enough_backlog) {
    out.push_back({Grade::note, "net.core.somaxconn is " + std::to_string(*backlog),
                   "for thousands of ranks: sysctl net.core.somaxconn=4096"});
  }
}

void check_python(Findings& out) {
  const char* const chosen = std::getenv("PYTHON_EXEC");  // NOLINT(concurrency-mt-unsafe)
  const std::string name = chosen != nullptr && *chosen != '\0' ? chosen : "python3";
  if (const auto found = find_program(name); found) {
    out.push_back({Grade::ok, "dlaunch starts scripts (.py) with " + *found, ""});
  } else {
    out.push_back({Grade::note, "dlaunch cannot start scripts (.py): " + found.error().message(),
                   "install python3, or set PYTHON_EXEC"});
  }
}

// --- debugging ---

bool may_trace_all() {
  constexpr std::uint64_t cap_sys_ptrace = 1ULL << 19U;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("CapEff:")) continue;
    std::istringstream number(line.substr(line.find(':') + 1));
    std::uint64_t capabilities = 0;
    number >> std::hex >> capabilities;
    return (capabilities & cap_sys_ptrace) != 0;
  }
  return false;
}

std::uint64_t bytes_of(rlim_t limit) { return limit == RLIM_INFINITY ? UINT64_MAX : limit; }

DebuggingFacts debugging_facts() {
  DebuggingFacts facts;
  facts.gdb = find_on_path("gdb");
  facts.py_spy = find_on_path("py-spy");
  if (const auto scope = number_in("/proc/sys/kernel/yama/ptrace_scope"); scope)
    facts.ptrace_scope = static_cast<int>(*scope);
  facts.may_trace_all = may_trace_all();
  rlimit limit{};
  if (getrlimit(RLIMIT_CORE, &limit) == 0) {
    facts.core_soft = bytes_of(limit.rlim_cur);
    facts.core_hard = bytes_of(limit.rlim_max);
  }
  std::ifstream pattern("/proc/sys/kernel/core_pattern");
  std::getline(pattern, facts.core_pattern);
  std::error_code failed;
  facts.folder = std::filesystem::current_path(failed).string();
  return facts;
}

}  // namespace

Findings check_machine(const GpuFacts& gpus) {
  Findings findings;
  check_kernel(findings);
  check_containment(findings);
  std::ranges::move(check_gpus(gpus), std::back_inserter(findings));
  check_python(findings);
  check_names(findings);
  check_port(findings);
  check_space(
      findings, "/dev/shm", enough_shared_memory,
      "PyTorch's data loaders and NCCL use it; in a container: --shm-size, --ipc=host, or an emptyDir of "
      "medium Memory");
  const char* const temporary = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
  check_space(findings, temporary != nullptr && *temporary != '\0' ? temporary : "/tmp",
              enough_temporary_space, "free some space, or set TMPDIR to another directory");
  check_limit(findings, RLIMIT_NOFILE, "open files", "-n", enough_files);
  check_limit(findings, RLIMIT_NPROC, "processes", "-u", enough_processes);
  for (Finding& finding : check_debugging(debugging_facts())) findings.push_back(std::move(finding));
  return findings;
}

}  // namespace dlaunch::launcher
