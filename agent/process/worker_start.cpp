#include "agent/process/worker_start.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "agent/process/elf_machine.h"
#include "agent/process/raw_syscall.h"
#include "agent/process/worker_session.h"
#include "store/base/small_file.h"

extern char** environ;

namespace dlaunch::agent {

// All that the child reads and writes before exec, in the memory that it shares with the keeper until then.
struct ChildPlan {
  WorkerStart start;
  std::vector<std::string> variables;  // start.environment as NAME=value
  std::vector<std::string> places;     // the paths at which PATH may have the program
  std::vector<cpu_set_t> cpus;         // one mask; empty: as inherited
  std::vector<unsigned long> nodes;    // one mask; empty: as inherited
  std::vector<char*> argv;
  std::vector<char*> shell_argv;  // for a script without an interpreter line; [1] is its path
  std::vector<char*> envp;
  std::vector<const char*> programs;
  pid_t keeper = 0;
  const Inherited* inherited = nullptr;
  bool founds_session = true;
  int error = 0;
  bool bound = true;  // false: the binding to CPUs failed
  alignas(16) char stack[12 * 1024];
};

namespace {

// The kernel's sigaction for the default action: all zero, whatever its layout.
struct DefaultAction {
  std::uint64_t zero[8] = {};
};

constexpr std::size_t signal_set_size = 8;
constexpr std::size_t bits_per_word = 8 * sizeof(unsigned long);

// MPOL_PREFERRED, and MPOL_PREFERRED_MANY of Linux 5.15, which older headers lack.
constexpr int prefer_one = 1;
constexpr int prefer_many = 5;

[[noreturn]] __attribute__((always_inline)) inline void leave() {
  for (;;) raw_syscall(SYS_exit_group, 127);
}

[[noreturn]] __attribute__((always_inline)) inline void fail(ChildPlan& plan, int error) {
  plan.error = error;
  leave();
}

// After these errors execvp(3), too, tries the next folder on PATH.
bool is_elsewhere(int error) {
  return error == ENOENT || error == ENOTDIR || error == ESTALE || error == ENODEV || error == ETIMEDOUT;
}

// An ELF file that exec rejects is damaged or for another machine. A shell would read it as a script.
__attribute__((no_sanitize("address", "undefined", "thread"))) bool is_elf(const char* program) {
  char beginning[4] = {};
  const long fd = raw_syscall(SYS_openat, AT_FDCWD, program, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return false;
  const long got = raw_syscall(SYS_read, fd, static_cast<char*>(beginning), sizeof beginning);
  raw_syscall(SYS_close, fd);
  return got == sizeof beginning && beginning[0] == '\177' && beginning[1] == 'E' && beginning[2] == 'L' &&
         beginning[3] == 'F';
}

// Returns only if no program could be run: errno.
__attribute__((no_sanitize("address", "undefined", "thread"))) int run_program(ChildPlan& plan) {
  bool denied = false;
  int error = ENOENT;
  for (const char* const* program = plan.programs.data(); *program != nullptr; ++program) {
    error = static_cast<int>(-raw_syscall(SYS_execve, *program, plan.argv.data(), plan.envp.data()));
    if (error == ENOEXEC && !is_elf(*program)) {
      plan.shell_argv.data()[1] = const_cast<char*>(*program);
      error = static_cast<int>(
          -raw_syscall(SYS_execve, plan.shell_argv.data()[0], plan.shell_argv.data(), plan.envp.data()));
    }
    if (error == EACCES) {
      denied = true;
    } else if (!is_elsewhere(error)) {
      return error;
    }
  }
  return denied ? EACCES : error;
}

// The policy stays as inherited if the kernel lacks this one, forbids it or has no such node.
__attribute__((no_sanitize("address", "undefined", "thread"))) void prefer_nodes(const ChildPlan& plan) {
  if (plan.nodes.empty()) return;
  const int policy = plan.start.memory_nodes.size() == 1 ? prefer_one : prefer_many;
  // The kernel reads one bit less than this number.
  raw_syscall(SYS_set_mempolicy, policy, plan.nodes.data(), plan.nodes.size() * bits_per_word + 1);
}

// Runs in the child between clone and exec, on its own stack but in the keeper's memory while the keeper
// continues: it calls nothing of the C library that writes anything, errno included.
__attribute__((no_sanitize("address", "undefined", "thread"))) int child_main(void* argument) {
  auto& plan = *static_cast<ChildPlan*>(argument);
  if (plan.founds_session)
    raw_syscall(SYS_setsid);
  else
    raw_syscall(SYS_setpgid, 0, 0);
  // Before the check of the parent: if the keeper died in between, no signal would come.
  raw_syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (raw_syscall(SYS_getppid) != plan.keeper) leave();
  const int streams[] = {plan.start.out, plan.start.err};
  for (int i = 0; i < 2; ++i) {
    if (const long done = raw_syscall(SYS_dup3, streams[i], STDOUT_FILENO + i, 0); done < 0)
      fail(plan, static_cast<int>(-done));
  }
  if (plan.start.pmi >= 0) raw_syscall(SYS_fcntl, plan.start.pmi, F_SETFD, 0);  // the exec leaves it open
  if (plan.start.owns_terminal) {  // the first stream that is a terminal becomes the controlling one
    for (int i = 0; i < 2; ++i) raw_syscall(SYS_ioctl, STDOUT_FILENO + i, TIOCSCTTY, 0);
  }
  const DefaultAction normal;
  for (const int signo : kept_ignored) {
    if (!plan.inherited->ignored.data()[signo])
      raw_syscall(SYS_rt_sigaction, signo, &normal, nullptr, signal_set_size);
  }
  const std::uint64_t none = 0;
  raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, signal_set_size);
  if (!plan.cpus.empty()) {
    const long done =
        raw_syscall(SYS_sched_setaffinity, 0, plan.cpus.size() * sizeof(cpu_set_t), plan.cpus.data());
    if (done < 0) {
      plan.bound = false;
      fail(plan, static_cast<int>(-done));
    }
  }
  prefer_nodes(plan);
  fail(plan, run_program(plan));
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

std::vector<unsigned long> node_mask_of(const std::vector<std::uint32_t>& nodes) {
  std::vector<unsigned long> mask;
  for (const std::uint32_t node : nodes) {
    mask.resize(std::max(mask.size(), node / bits_per_word + 1));
    mask[node / bits_per_word] |= 1UL << node % bits_per_word;
  }
  return mask;
}

// The paths that execvp(3) would try.
std::vector<std::string> places_of(const char* program) {
  if (std::strchr(program, '/') != nullptr) return {program};
  const char* const set = std::getenv("PATH");
  std::string_view path = set != nullptr ? set : "/bin:/usr/bin";
  std::vector<std::string> places;
  while (true) {
    const std::size_t colon = path.find(':');
    const std::string_view folder = path.substr(0, colon);
    places.push_back(folder.empty() ? program : std::string(folder) + "/" + program);
    if (colon == std::string_view::npos) return places;
    path.remove_prefix(colon + 1);
  }
}

// Appends the inherited variables to the worker's own, which replace those of the same name.
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

void prepare(ChildPlan& plan) {
  static char shell[] = "/bin/sh";
  const std::vector<const char*>& argv = plan.start.argv;
  plan.argv.reserve(argv.size() + 1);
  for (const char* const argument : argv) plan.argv.push_back(const_cast<char*>(argument));
  plan.argv.push_back(nullptr);
  plan.shell_argv = {shell, nullptr};
  plan.shell_argv.insert(plan.shell_argv.end(), plan.argv.begin() + 1, plan.argv.end());

  plan.variables.reserve(plan.start.environment.size() + 1);
  for (const auto& [name, value] : plan.start.environment)
    plan.variables.push_back(std::string(name) + "=" + value);
  if (plan.start.pmi >= 0) plan.variables.push_back("PMI_FD=" + std::to_string(plan.start.pmi));
  for (std::string& variable : plan.variables) plan.envp.push_back(variable.data());
  add_inherited(plan.variables, plan.envp);
  plan.envp.push_back(nullptr);

  plan.places = places_of(argv.front());
  for (const std::string& place : plan.places) plan.programs.push_back(place.c_str());
  plan.programs.push_back(nullptr);
  plan.cpus = mask_of(plan.start.cpus);
  plan.nodes = node_mask_of(plan.start.memory_nodes);
}

}  // namespace

StartingWorker::StartingWorker(WorkerStart start, const Inherited& inherited, WorkerSession* session)
    : plan_(std::make_unique_for_overwrite<ChildPlan>()) {
  ChildPlan& plan = *plan_;
  plan.start = std::move(start);
  plan.keeper = getpid();
  plan.inherited = &inherited;
  prepare(plan);
  constexpr unsigned flags = raw_syscall_keeps_errno ? CLONE_VM : CLONE_VM | CLONE_VFORK;
  const WorkerClone worker{plan.start.cgroup, flags, child_main, &plan, plan.stack, sizeof plan.stack};
  plan.founds_session = session == nullptr;
  if (session != nullptr) pid_ = session->make(worker);
  if (pid_ < 0) {
    plan.founds_session = true;
    make_worker(worker, pid_);
  }
  if (pid_ < 0) plan.error = errno;
}

StartingWorker::~StartingWorker() = default;

int StartingWorker::error() const { return plan_->error; }

std::string StartingWorker::what() const {
  if (!plan_->bound) return "cannot bind it to its CPUs: ";
  if (plan_->error != ENOEXEC) return "";
  utsname own{};
  uname(&own);
  for (const std::string& place : plan_->places) {
    std::error_code missing;
    const auto target = std::filesystem::canonical(place, missing);  // it may be a link
    const auto file = read_plain_file(target.string(), elf_beginning);
    const std::string why = file ? why_not_run(file->text, static_cast<const char*>(own.machine)) : "";
    if (!why.empty()) return why + ": ";
  }
  return "";
}

}  // namespace dlaunch::agent
