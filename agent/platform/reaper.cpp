#include "agent/platform/reaper.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <optional>

#include "store/base/number.h"
#include "store/base/process_stat.h"

namespace dlaunch::agent {
namespace {

std::optional<std::string> read_small_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::string text;
  char chunk[4096];
  ssize_t got = 0;
  while ((got = read(fd, chunk, sizeof chunk)) > 0) text.append(chunk, static_cast<std::size_t>(got));
  close(fd);
  return text;
}

std::vector<pid_t> numbers_in(const std::string& folder) {
  std::vector<pid_t> numbers;
  DIR* dir = opendir(folder.c_str());
  if (!dir) return numbers;
  while (const dirent* entry = readdir(dir)) {  // NOLINT(concurrency-mt-unsafe): one thread
    if (const auto number = parse_number<pid_t>(entry->d_name)) numbers.push_back(*number);
  }
  closedir(dir);
  return numbers;
}

// Our own number in /proc. It differs from getpid() if /proc was mounted outside our process namespace
// ("unshare --pid" without --mount-proc): then all its numbers are those of the outer namespace.
pid_t own_number() {
  char text[32] = "";
  const ssize_t size = readlink("/proc/self", text, sizeof text - 1);
  return size > 0 ? static_cast<pid_t>(std::strtol(text, nullptr, 10)) : getpid();
}

bool proc_is_foreign() { return own_number() != getpid(); }

using Tree = std::map<pid_t, std::vector<pid_t>>;  // children by parent

// For kernels built without /proc/PID/task/TID/children: looks once at every process of the machine.
Tree children_by_parent() {
  Tree tree;
  for (pid_t pid : numbers_in("/proc")) {
    if (const auto stat = process_stat(pid)) tree[stat->parent].push_back(pid);
  }
  return tree;
}

// A process's pids, from the one in /proc's namespace to the one in its own.
std::vector<pid_t> numbers_of(pid_t number) {
  std::vector<pid_t> numbers;
  const auto status = read_small_file("/proc/" + std::to_string(number) + "/status");
  const auto line = status ? status->find("\nNSpid:") : std::string::npos;
  if (line == std::string::npos) return numbers;
  const char* at = status->c_str() + line + std::strlen("\nNSpid:");
  char* end = nullptr;
  for (long one = std::strtol(at, &end, 10); end != at && *at != '\n'; one = std::strtol(at, &end, 10)) {
    numbers.push_back(static_cast<pid_t>(one));
    at = end;
  }
  return numbers;
}

// Our descendants with their pids in our namespace, read from a foreign /proc.
Tree translated_tree() {
  const Tree seen = children_by_parent();
  const std::size_t depth = numbers_of(own_number()).size();
  Tree ours;
  std::vector<std::pair<pid_t, pid_t>> open{{own_number(), getpid()}};  // in /proc, for us
  while (!open.empty()) {
    const auto [number, pid] = open.back();
    open.pop_back();
    const auto children = seen.find(number);
    if (children == seen.end()) continue;
    for (const pid_t child : children->second) {
      const auto numbers = numbers_of(child);
      if (depth == 0 || numbers.size() < depth) continue;  // has ended meanwhile
      ours[pid].push_back(numbers[depth - 1]);
      open.emplace_back(child, numbers[depth - 1]);
    }
  }
  return ours;
}

bool kernel_lists_children() {
  static const bool lists = access("/proc/thread-self/children", R_OK) == 0 && !proc_is_foreign();
  return lists;
}

Tree whole_tree() { return proc_is_foreign() ? translated_tree() : children_by_parent(); }

std::vector<pid_t> listed_children_of(pid_t pid) {
  std::vector<pid_t> found;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (pid_t task : numbers_in(tasks)) {  // a child belongs to the thread that forked it
    const auto text = read_small_file(tasks + "/" + std::to_string(task) + "/children");
    if (!text) continue;
    const char* at = text->c_str();
    char* end = nullptr;
    for (long child = std::strtol(at, &end, 10); end != at; child = std::strtol(at, &end, 10)) {
      found.push_back(static_cast<pid_t>(child));
      at = end;
    }
  }
  return found;
}

bool is_zombie(pid_t pid) {
  if (proc_is_foreign()) return false;  // a signal to a zombie has no effect
  const auto stat = process_stat(pid);
  return !stat || stat->has_ended();
}

}  // namespace

void become_subreaper() { prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

std::vector<pid_t> all_processes() { return proc_is_foreign() ? std::vector<pid_t>{} : numbers_in("/proc"); }

std::vector<pid_t> children_of(pid_t pid) {
  return kernel_lists_children() ? listed_children_of(pid) : whole_tree()[pid];
}

std::vector<pid_t> descendants_of(pid_t pid) {
  Tree tree;
  if (!kernel_lists_children()) tree = whole_tree();
  const auto children = [&](pid_t parent) {
    return kernel_lists_children() ? listed_children_of(parent) : tree[parent];
  };
  std::vector<pid_t> all = children(pid);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (pid_t child : children(all[i])) {
      // A process that gets a new parent during this loop may be listed twice.
      if (std::find(all.begin(), all.end(), child) == all.end()) all.push_back(child);
    }
  }
  return all;
}

int kill_descendants(const std::vector<pid_t>& spared) {
  int killed = 0;
  for (pid_t pid : descendants_of(getpid())) {
    if (std::find(spared.begin(), spared.end(), pid) != spared.end() || is_zombie(pid)) continue;
    if (kill(pid, SIGKILL) == 0) ++killed;
  }
  return killed;
}

std::optional<std::uint64_t> birth_of(pid_t pid) {
  if (proc_is_foreign())
    return kill(pid, 0) == 0 || errno == EPERM ? std::optional<std::uint64_t>(0) : std::nullopt;
  const auto stat = process_stat(pid);
  if (!stat || stat->has_ended()) return std::nullopt;
  return stat->birth;
}

std::string name_process(pid_t pid) {
  if (proc_is_foreign()) return std::to_string(pid);
  auto name = read_small_file("/proc/" + std::to_string(pid) + "/comm");
  if (!name || name->empty()) return std::to_string(pid);
  if (name->back() == '\n') name->pop_back();
  return std::to_string(pid) + " (" + *name + ")";
}

std::string explain_process(pid_t pid) {
  std::string name = name_process(pid);
  const auto stat = proc_is_foreign() ? std::nullopt : process_stat(pid);
  if (stat && stat->has_ended()) return "";
  if (!stat || !name.ends_with(')')) return name;
  name.pop_back();
  name += stat->state == 'D' ? "; uninterruptible" : "; state " + std::string(1, stat->state);
  const auto where = read_small_file("/proc/" + std::to_string(pid) + "/wchan");
  if (where && *where != "0" && !where->empty()) name += ", in " + *where;
  return name + ")";
}

void reap_all_ended() {
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

Duration monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

std::int64_t boot_time_ms() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

std::vector<pid_t> kill_and_reap_all(Duration limit) {
  const timespec pause{0, 2'000'000};
  const Duration until = monotonic_now() + limit;
  while (true) {
    pid_t reaped = 0;
    do {
      reaped = waitpid(-1, nullptr, WNOHANG);
    } while (reaped > 0 || (reaped < 0 && errno == EINTR));
    if (reaped < 0) return {};  // ECHILD: none is left
    kill_descendants();
    if (monotonic_now() >= until) return children_of(getpid());
    nanosleep(&pause, nullptr);
  }
}

}  // namespace dlaunch::agent
