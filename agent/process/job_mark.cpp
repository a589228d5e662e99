#include "agent/process/job_mark.h"

#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "agent/platform/reaper.h"

namespace dlaunch::agent {
namespace {

constexpr int random_bits = 48;
constexpr JobMark tag = 0x646c;  // in the bits above: distinguishes a mark from a limit that a user has set

bool is_mark(rlim_t limit) { return limit != RLIM_INFINITY && limit >> random_bits == tag; }

bool carries(pid_t pid, JobMark mark) {
  rlimit locks{};
  return prlimit(pid, RLIMIT_LOCKS, nullptr, &locks) == 0 && locks.rlim_cur == mark;
}

// Every marked process is in a worker's session or one made below it, except the keeper and a worker that was
// cloned a moment ago. So its process group belongs to the job, unless it is the keeper's or this process's.
void kill_with_group(pid_t pid, pid_t spared) {
  const pid_t group = getpgid(pid);
  kill(pid, SIGKILL);
  if (group > 1 && group != spared && group != getpgrp() && getsid(pid) != getsid(0)) kill(-group, SIGKILL);
}

}  // namespace

JobMark make_job_mark() {
  rlimit locks{};
  JobMark random = 0;
  if (getrlimit(RLIMIT_LOCKS, &locks) != 0 || is_mark(locks.rlim_cur)) return no_job_mark;
  if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) return no_job_mark;
  const JobMark mark = tag << random_bits | random >> (64 - random_bits);
  return locks.rlim_max == RLIM_INFINITY || mark <= locks.rlim_max ? mark : no_job_mark;
}

void carry(JobMark mark) {
  rlimit locks{};
  if (mark == no_job_mark || getrlimit(RLIMIT_LOCKS, &locks) != 0) return;
  locks.rlim_cur = mark;
  setrlimit(RLIMIT_LOCKS, &locks);
}

std::vector<pid_t> kill_marked_processes(JobMark mark, pid_t spared) {
  std::vector<pid_t> found;
  if (mark == no_job_mark) return found;
  for (const pid_t pid : all_processes()) {
    if (pid == getpid() || pid == spared || !carries(pid, mark) || !birth_of(pid)) continue;
    kill_with_group(pid, spared);
    found.push_back(pid);
  }
  return found;
}

}  // namespace dlaunch::agent
