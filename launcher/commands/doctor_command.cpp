#include "launcher/commands/doctor_command.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "agent/process/job_cgroup.h"
#include "launcher/commands/command_parser.h"
#include "launcher/console/command_io.h"
#include "launcher/flags/value_parsers.h"
#include "launcher/machine/local_addresses.h"
#include "launcher/machine/machine.h"
#include "launcher/topology/accelerators.h"
#include "store/base/text.h"
#include "store/client/blocking_socket.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

constexpr std::uint16_t usual_port = 29500;
constexpr Duration peer_patience = std::chrono::seconds(5);
constexpr std::uint64_t enough_shared_memory = 1ULL << 30;
constexpr std::uint64_t enough_temporary_space = 100ULL << 20;
constexpr rlim_t enough_files = 4096;
constexpr rlim_t enough_processes = 4096;
constexpr long enough_backlog = 1024;

struct Finding {
  enum class Grade { ok, note, bad };
  Grade grade = Grade::ok;
  std::string text;   // "host name a: resolves to 10.0.0.1"
  std::string to_do;  // empty if it is ok
};
using Findings = std::vector<Finding>;
using Grade = Finding::Grade;

std::string describe(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    const char* const mark = finding.grade == Grade::ok     ? "ok    "
                             : finding.grade == Grade::note ? "note  "
                                                            : "BAD   ";
    text += mark + finding.text + (finding.to_do.empty() ? "" : ": " + finding.to_do) + "\n";
  }
  return text;
}

std::string describe_size(std::uint64_t bytes) {
  constexpr std::uint64_t gib = 1ULL << 30;
  return bytes >= 10 * gib ? std::to_string(bytes / gib) + " GiB" : std::to_string(bytes >> 20) + " MiB";
}

std::string describe_limit(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit);
}

// --- names and addresses ---

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

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

void check_gpus(Findings& out) {
  std::ifstream version("/proc/driver/nvidia/version");
  std::string line;
  const int gpus = count_accelerators("gpu", environment());
  if (!std::getline(version, line)) {
    out.push_back({Grade::ok,
                   gpus > 0 ? std::to_string(gpus) + " AMD GPUs"
                            : "no NVIDIA driver: --nproc-per-node=auto counts processors",
                   ""});
  } else if (gpus == 0) {
    out.push_back({Grade::note, "there is an NVIDIA driver, but no usable GPU",
                   "check CUDA_VISIBLE_DEVICES and the permissions of /dev/nvidia*"});
  } else {
    out.push_back({Grade::ok, std::to_string(gpus) + " GPUs; " + line, ""});
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

// --- the connection to another host ---

void check_peer(Findings& out, const Address& peer) {
  const std::string name = to_string(peer);
  BlockingSocket socket;
  const TimePoint start = steady_now();
  const auto connected = socket.connect(peer, start + peer_patience);
  const std::string time = to_words(steady_now() - start);
  if (connected) {
    out.push_back({Grade::ok, name + " answered after " + time, ""});
    return;
  }
  const std::string& why = connected.error().why;
  if (why.find("name") != std::string::npos) {
    out.push_back({Grade::bad, name + ": " + why, "check the name, DNS and /etc/hosts"});
  } else if (why.find("refused") != std::string::npos) {
    out.push_back({Grade::note,
                   "the host of " + name + " answered after " + time + ", but nothing listens on that port",
                   "this is normal before the job has started there; otherwise check --master-port"});
  } else {
    out.push_back({Grade::bad, name + ": " + why + " (tried for " + time + ")",
                   "check the address, routes and firewalls between here and there"});
  }
}

Result<Address> peer_named(const std::string& text) {
  if (text.empty()) return mistake("--peer is empty", "give host or host:port; is a shell variable empty?");
  auto peer = parse_address(text, usual_port);
  if (!peer) return mistake("--peer: " + peer.error().message(), "give host or host:port");
  return peer;
}

}  // namespace

int run_doctor(const std::vector<std::string>& arguments) {
  std::optional<std::string> peer_name;
  CommandParser line(
      "dlaunch doctor",
      "dlaunch doctor checks whether this machine can run jobs. Each line begins with ok, note (may "
      "matter\nfor your job) or BAD, and ends with what to do.\n\nUsage: dlaunch doctor [options]");
  line.option("--peer", "HOST[:PORT]", "also check the connection to another host [port 29500]", peer_name);
  auto parsed = line.parse(arguments);
  if (!parsed) return fail(parsed.error());
  if (const auto* help = std::get_if<PrintAndExit>(&*parsed)) return print(help->text);
  if (!std::get<CommandParser::Words>(*parsed).empty())
    return fail(mistake("doctor takes no arguments", "name a host with --peer"));
  const auto peer = peer_name ? std::optional(peer_named(*peer_name)) : std::nullopt;
  if (peer && !*peer) return fail(peer->error());

  Findings findings;
  check_kernel(findings);
  check_containment(findings);
  check_gpus(findings);
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
  if (peer) check_peer(findings, **peer);
  if (const int failed = print(describe(findings)); failed != 0) return failed;
  for (const Finding& finding : findings) {
    if (finding.grade == Grade::bad) return exit_error;
  }
  return 0;
}

}  // namespace dlaunch::launcher
