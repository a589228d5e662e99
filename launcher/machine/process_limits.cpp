#include "launcher/machine/process_limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include "store/base/text.h"
#include "store/protocol/limits.h"

namespace dlaunch::launcher {
namespace {

constexpr rlim_t own_files = 32;  // loop, sockets, terminal, the helpers' ends; with some to spare
constexpr rlim_t files_a_worker = 2;
constexpr rlim_t files_a_host = 3;  // the pipes of its ssh

// Includes descriptors that this process inherited.
rlim_t open_files(rlim_t up_to) {
  rlim_t open = 0;
  for (int fd = 0; static_cast<rlim_t>(fd) < up_to; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) ++open;
  }
  return open;
}

// Linux reports the count from 6.2 on; before that they are listed, which takes longer.
std::size_t count_open_files() {
  struct stat status {};
  if (stat("/proc/self/fd", &status) == 0 && status.st_size > 0)
    return static_cast<std::size_t>(status.st_size);
  std::error_code failed;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator at("/proc/self/fd", failed), end; !failed && at != end;
       at.increment(failed))
    ++count;
  return count;
}

// `before`: how many are needed besides those that are open now. `what` needs them: "4 workers".
Result<void> check_limit(rlim_t before, const std::string& what) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  const rlim_t needed = before + open_files(before);
  // The soft limit applies to helpers and workers; dlaunch raises its own to the hard limit.
  if (limit.rlim_max >= needed && limit.rlim_cur >= own_files) return {};
  const bool hard = limit.rlim_max < needed;
  return Error{ErrorKind::limit, "cannot start " + what, "",
               std::to_string(hard ? needed : own_files) + " open files are needed, but only " +
                   std::to_string(hard ? limit.rlim_max : limit.rlim_cur) + " are allowed",
               hard ? "raise the hard limit (ulimit -Hn, or LimitNOFILE=, or the container's nofile)"
                    : "raise ulimit -n"};
}

std::size_t free_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX / 2;
  const std::size_t open = count_open_files();
  return limit.rlim_cur > open ? static_cast<std::size_t>(limit.rlim_cur) - open : 0;
}

}  // namespace

PortLimits port_limits(int workers, int nodes) {
  PortLimits limits;
  limits.reserved += files_a_worker * static_cast<std::size_t>(workers) + static_cast<std::size_t>(nodes);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    limits.reserved = std::min(limits.reserved, static_cast<std::size_t>(limit.rlim_cur / 4));
  limits.free_descriptors = free_descriptors;
  return limits;
}

Result<void> check_descriptor_limit(int workers, int nodes) {
  return check_limit(own_files + files_a_worker * static_cast<rlim_t>(workers) + static_cast<rlim_t>(nodes),
                     pluralize(workers, "worker"));
}

Result<void> check_descriptor_limit_for_hosts(std::size_t hosts) {
  return check_limit(own_files + files_a_host * hosts, "a job on " + pluralize(hosts, "host"));
}

std::uint64_t allowed_memory() {
  std::uint64_t most = UINT64_MAX;
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_size = sysconf(_SC_PAGE_SIZE);
  if (pages > 0 && page_size > 0)
    most = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_size);
  for (const auto what : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (getrlimit(what, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      most = std::min<std::uint64_t>(most, limit.rlim_cur);
  }
  return most;
}

std::uint64_t usual_store_total() { return std::min(StoreLimits{}.total_bytes, allowed_memory() / 2); }

void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace dlaunch::launcher
