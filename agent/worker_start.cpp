#include "agent/worker_start.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "agent/clone_into_group.h"

extern char** environ;

namespace dlaunch::agent {
namespace {

struct ChildPlan {
  char* const* argv = nullptr;
  char* const* envp = nullptr;
  int out = -1;
  int err = -1;
  pid_t keeper = 0;
  const Inherited* inherited = nullptr;
  const cpu_set_t* cpus = nullptr;  // nullptr: as inherited
  std::size_t cpus_size = 0;
  int error = 0;      // written by the child, which shares our memory until it execs
  bool bound = true;  // likewise: false where it was the binding that failed
};

// Runs in the child between clone and exec, on its own stack but in the keeper's memory: only
// async-signal-safe calls.
__attribute__((no_sanitize("address", "undefined", "thread"))) int child_main(void* argument) {
  auto& plan = *static_cast<ChildPlan*>(argument);
  setsid();
  // Asked for before the check: if the keeper has died in between, nobody would tell us.
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != plan.keeper) _exit(127);
  if (dup2(plan.out, STDOUT_FILENO) < 0 || dup2(plan.err, STDERR_FILENO) < 0) {
    plan.error = errno;
    _exit(127);
  }
  struct sigaction normal {};
  normal.sa_handler = SIG_DFL;
  for (int signo : kept_ignored) {
    if (!plan.inherited->ignored[static_cast<std::size_t>(signo)]) sigaction(signo, &normal, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (plan.cpus && sched_setaffinity(0, plan.cpus_size, plan.cpus) != 0) {
    plan.error = errno;
    plan.bound = false;
    _exit(127);
  }
  execvpe(plan.argv[0], plan.argv, plan.envp);
  plan.error = errno;
  _exit(127);
}

// One mask, as long as the largest CPU needs; empty for no CPUs.
std::vector<cpu_set_t> mask_of(const std::vector<std::uint32_t>& cpus) {
  if (cpus.empty()) return {};
  const std::uint32_t largest = *std::max_element(cpus.begin(), cpus.end());
  std::vector<cpu_set_t> mask(largest / CPU_SETSIZE + 1);
  const std::size_t size = mask.size() * sizeof(cpu_set_t);
  CPU_ZERO_S(size, mask.data());
  for (const std::uint32_t cpu : cpus) CPU_SET_S(cpu, size, mask.data());
  return mask;
}

// The inherited variables behind the worker's own, which come first and hide those of the same name.
void add_inherited(const std::vector<std::string>& own, std::vector<char*>& envp) {
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view name(*variable, std::strcspn(*variable, "="));
    const bool hidden = std::any_of(own.begin(), own.end(), [&](const std::string& one) {
      return one.size() > name.size() && one[name.size()] == '=' &&
             std::string_view(one).substr(0, name.size()) == name;
    });
    if (!hidden) envp.push_back(*variable);
  }
}

}  // namespace

WorkerStarted start_worker(const WorkerStart& start, const Inherited& inherited) {
  std::vector<char*> argv;
  argv.reserve(start.argv.size() + 1);
  for (const char* argument : start.argv) argv.push_back(const_cast<char*>(argument));
  argv.push_back(nullptr);

  std::vector<std::string> own;
  own.reserve(start.environment.size());
  for (const auto& [name, value] : start.environment) own.push_back(std::string(name) + "=" + value);
  std::vector<char*> envp;
  envp.reserve(own.size());
  for (std::string& variable : own) envp.push_back(variable.data());
  add_inherited(own, envp);
  envp.push_back(nullptr);

  ChildPlan plan{argv.data(), envp.data(), start.out, start.err, getpid(), &inherited};
  const std::vector<cpu_set_t> mask = mask_of(start.cpus);
  if (!mask.empty()) {
    plan.cpus = mask.data();
    plan.cpus_size = mask.size() * sizeof(cpu_set_t);
  }
  alignas(16) static char stack[64 * 1024];
  pid_t pid = -1;
  if (start.group >= 0) pid = clone_into_group(start.group, child_main, &plan, stack, sizeof stack);
  // The kernel, a seccomp filter or a threaded group may forbid it.
  if (pid < 0) pid = clone(child_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &plan);
  if (pid < 0) return {-1, errno, ""};
  if (plan.error == 0) return {pid, 0, ""};
  waitpid(pid, nullptr, 0);
  return {-1, plan.error, plan.bound ? "" : "cannot bind it to its CPUs: "};
}

}  // namespace dlaunch::agent
