#include "agent/reaper.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <optional>

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
    pid_t number = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    const auto [stop, failure] = std::from_chars(entry->d_name, end, number);
    if (failure == std::errc{} && stop == end) numbers.push_back(number);
  }
  closedir(dir);
  return numbers;
}

struct Stat {
  char state = '?';
  pid_t parent = 0;
};

// The command's name, in parentheses, may itself hold parentheses and blanks: the fields begin after the
// last.
std::optional<Stat> stat_of(pid_t pid) {
  const auto text = read_small_file("/proc/" + std::to_string(pid) + "/stat");
  if (!text) return std::nullopt;
  const auto close = text->rfind(')');
  Stat stat;
  int parent = 0;
  if (close == std::string::npos ||
      std::sscanf(text->c_str() + close + 1, " %c %d", &stat.state, &parent) != 2)
    return std::nullopt;
  stat.parent = parent;
  return stat;
}

// Where the kernel was built without /proc/PID/task/TID/children: one look at every process there is.
std::map<pid_t, std::vector<pid_t>> children_by_parent() {
  std::map<pid_t, std::vector<pid_t>> tree;
  for (pid_t pid : numbers_in("/proc")) {
    if (const auto stat = stat_of(pid)) tree[stat->parent].push_back(pid);
  }
  return tree;
}

bool kernel_lists_children() {
  static const bool lists = access("/proc/thread-self/children", R_OK) == 0;
  return lists;
}

bool is_zombie(pid_t pid) {
  const auto stat = stat_of(pid);
  return !stat || stat->state == 'Z' || stat->state == 'X';
}

}  // namespace

void become_subreaper() { prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

std::vector<pid_t> children_of(pid_t pid) {
  if (!kernel_lists_children()) return children_by_parent()[pid];
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

std::vector<pid_t> descendants_of(pid_t pid) {
  std::vector<pid_t> all = children_of(pid);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (pid_t child : children_of(all[i])) {
      // A process that moved to a new parent while we looked may be listed twice.
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

std::string name_process(pid_t pid) {
  auto name = read_small_file("/proc/" + std::to_string(pid) + "/comm");
  if (!name || name->empty()) return std::to_string(pid);
  if (name->back() == '\n') name->pop_back();
  return std::to_string(pid) + " (" + *name + ")";
}

void reap_all_ended() {
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

std::vector<pid_t> kill_and_reap_all(Duration limit) {
  const timespec pause{0, 2'000'000};
  timespec began{};
  clock_gettime(CLOCK_MONOTONIC, &began);
  while (true) {
    kill_descendants();
    pid_t reaped = 0;
    do {
      reaped = waitpid(-1, nullptr, WNOHANG);
    } while (reaped > 0 || (reaped < 0 && errno == EINTR));
    if (reaped < 0) return {};  // ECHILD: nobody is left
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    const Duration waited = std::chrono::seconds(now.tv_sec - began.tv_sec) +
                            std::chrono::nanoseconds(now.tv_nsec - began.tv_nsec);
    if (waited >= limit) return children_of(getpid());
    nanosleep(&pause, nullptr);
  }
}

}  // namespace dlaunch::agent
