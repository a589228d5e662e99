#include "agent/job_group.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "agent/cgroup_path.h"
#include "agent/clone_into_group.h"

namespace dlaunch::agent {
namespace {

constexpr std::string_view prefix = "dlaunch-";
constexpr int own_dying_ms = 2000;
constexpr int others_dying_ms = 200;  // what is stuck in a dead job's group must not hold up every new job
constexpr int look_again_ms = 10;
constexpr int tries = 3;

std::string text_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> folders_in(const std::string& path) {
  std::vector<std::string> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(path.c_str()), closedir);
  if (!dir) return found;
  while (const dirent* entry = readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe): one thread
    const std::string_view name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..") found.emplace_back(name);
  }
  return found;
}

// The directory, locked; none where somebody else holds the lock, or has just removed it.
std::optional<JobGroup> lock(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 && faccessat(fd, "cgroup.procs", F_OK, 0) == 0)
    return JobGroup{path, fd};
  close(fd);
  return std::nullopt;
}

// Those below first. False: something in it is still alive.
bool remove_tree(const std::string& path) {
  for (const std::string& name : folders_in(path)) remove_tree(path + "/" + name);
  return rmdir(path.c_str()) == 0 || errno != EBUSY;
}

void end_and_remove(const JobGroup& group, int limit_ms) {
  kill_job_group(group);
  for (int waited = 0; !remove_tree(group.path) && waited < limit_ms; waited += look_again_ms)
    poll(nullptr, 0, look_again_ms);
}

void remove_dead_jobs(const std::string& own) {
  for (const std::string& name : folders_in(own)) {
    if (!name.starts_with(prefix)) continue;
    if (const auto dead = lock(own + "/" + name)) {
      end_and_remove(*dead, others_dying_ms);
      close(dead->fd);
    }
  }
}

int leave(void*) { _exit(0); }

// Whether a process can be started there: the kernel, a seccomp filter or a threaded group may forbid it.
int try_to_start_in(const JobGroup& group) {
  alignas(16) static char stack[16 * 1024];
  const pid_t pid = clone_into_group(group.fd, leave, nullptr, stack, sizeof stack);
  if (pid < 0) return errno;
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return 0;
}

Error no_group(const std::string& where, int why) {
  const bool not_ours = why == EACCES || why == EPERM;
  return Error{ErrorKind::io, "no control group can be made in", where, std::strerror(why),
               not_ours ? "'systemd-run --user --scope -p Delegate=yes dlaunch ...' has one" : ""};
}

}  // namespace

Result<JobGroup> make_job_group() {
  const auto own = cgroup_directory(text_of("/proc/self/mountinfo"), text_of("/proc/self/cgroup"));
  if (!own) return Error{ErrorKind::not_found, "no control group: cgroup v2 is not mounted", "", "", ""};
  remove_dead_jobs(*own);
  for (int i = 0; i < tries; ++i) {
    std::string path = *own + "/" + std::string(prefix) + std::to_string(getpid()) + "-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) return no_group(*own, errno);
    auto group = lock(path);
    if (!group) continue;  // another dlaunch took it for a dead job's before we had the lock
    Result<JobGroup> made = *group;
    if (faccessat(group->fd, "cgroup.kill", W_OK, 0) != 0) {
      made = Error{ErrorKind::not_found, "no control group: the kernel has no cgroup.kill (Linux 5.14)", "",
                   "", ""};
    } else if (const int why = try_to_start_in(*group); why != 0) {
      made = no_group(*own, why);
    }
    if (!made) {
      rmdir(path.c_str());
      close(group->fd);
    }
    return made;
  }
  return no_group(*own, EBUSY);
}

void kill_job_group(const JobGroup& group) {
  if (!group.exists()) return;
  const int fd = openat(group.fd, "cgroup.kill", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t written = write(fd, "1", 1);
  close(fd);
}

void remove_job_group(const JobGroup& group) {
  if (group.exists()) end_and_remove(group, own_dying_ms);
}

}  // namespace dlaunch::agent
