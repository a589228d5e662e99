#include "agent/process/job_cgroup.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "agent/process/cgroup_path.h"
#include "store/base/small_file.h"

namespace dlaunch::agent {
namespace {

constexpr int own_dying_ms = 2000;
constexpr int others_dying_ms = 200;  // a process stuck in a dead job's cgroup must not delay every new job
constexpr int remove_again_ms = 10;

constexpr std::size_t longest_table = 4U << 20;

std::string text_of(const char* path) {
  const auto file = read_plain_file(path, longest_table);
  return file ? file->text : "";
}

// Removes the cgroups below it first. False: it still holds a living process.
bool remove_tree(const std::string& path) {
  for (const std::string& name : folders_in(path)) remove_tree(std::string(path).append("/").append(name));
  return rmdir(path.c_str()) == 0 || errno != EBUSY;
}

void end_and_remove(const JobCgroup& cgroup, int limit_ms) {
  if (rmdir(cgroup.path.c_str()) == 0) return;  // it was empty
  kill_job_cgroup(cgroup);
  for (int waited = 0; !remove_tree(cgroup.path) && waited < limit_ms; waited += remove_again_ms)
    poll(nullptr, 0, remove_again_ms);
}

std::optional<std::string> own_directory() {
  return cgroup_directory(text_of("/proc/self/mountinfo"), text_of("/proc/self/cgroup"));
}

void remove_dead_in(const std::string& directory) {
  for_each_dead_job(directory, [](const JobCgroup& dead) { end_and_remove(dead, others_dying_ms); });
}

Error no_cgroup(const std::string& where, const std::string& why) {
  return Error{ErrorKind::io, "cannot make a cgroup in", where, why,
               "run 'systemd-run --user --scope -p Delegate=yes dlaunch ...' to get one"};
}

}  // namespace

Result<JobCgroup> make_job_cgroup(pid_t agent) {
  const auto own = own_directory();
  if (!own) return Error{ErrorKind::not_found, "cannot make a cgroup", "", "cgroup v2 is not mounted", ""};
  remove_dead_in(*own);
  auto cgroup = make_locked_dir(*own, agent);
  if (!cgroup) return no_cgroup(*own, cgroup.error().why);
  if (faccessat(cgroup->fd, "cgroup.kill", W_OK, 0) == 0) return cgroup;
  rmdir(cgroup->path.c_str());
  close(cgroup->fd);
  return no_cgroup(*own, "the kernel has no cgroup.kill (Linux 5.14 has)");
}

void remove_stale_job_cgroups() {
  if (const auto own = own_directory()) remove_dead_in(*own);
}

int make_sub_cgroup(const JobCgroup& cgroup, const std::string& name) {
  if (!cgroup.exists() || mkdirat(cgroup.fd, name.c_str(), 0700) != 0) return -1;
  return openat(cgroup.fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

void remove_sub_cgroup(const JobCgroup& cgroup, const std::string& name) {
  if (cgroup.exists()) remove_tree(cgroup.path + "/" + name);
}

void kill_job_cgroup(const JobCgroup& cgroup) {
  if (!cgroup.exists()) return;
  const int fd = openat(cgroup.fd, "cgroup.kill", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t written = write(fd, "1", 1);
  close(fd);
}

void remove_job_cgroup(const JobCgroup& cgroup) {
  if (cgroup.exists()) end_and_remove(cgroup, own_dying_ms);
}

}  // namespace dlaunch::agent
