#include "launcher/machine/sanitize_startup.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <climits>
#include <csignal>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <system_error>

namespace dlaunch::launcher {
namespace {

constexpr int first_unusual = STDERR_FILENO + 1;
constexpr unsigned set_close_on_exec = 1U << 2;  // CLOSE_RANGE_CLOEXEC; old headers lack it

void set_flags_of(int fd, int flags) { (void)fcntl(fd, F_SETFD, flags); }

void set_close_on_exec_on_inherited() {
  if (syscall(SYS_close_range, first_unusual, UINT_MAX, set_close_on_exec) == 0) return;
  // Before Linux 5.11.
  std::error_code failed;
  for (std::filesystem::directory_iterator at("/proc/self/fd", failed), end; !failed && at != end;
       at.increment(failed)) {
    const std::string name = at->path().filename().string();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    if (fd >= first_unusual) set_flags_of(fd, FD_CLOEXEC);
  }
}

void end_by(int signo) { _exit(128 + signo); }

void let_signals_end_process_1() {
  if (getpid() != 1) return;
  for (const int signo : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) {
    struct sigaction current {};
    if (sigaction(signo, nullptr, &current) == 0 && current.sa_handler == SIG_DFL) std::signal(signo, end_by);
  }
}

}  // namespace

std::vector<int> inherited_descriptors_in(const std::string& argument) {
  std::vector<int> out;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    for (auto at = argument.find(folder); at != std::string::npos; at = argument.find(folder, at + 1)) {
      int fd = -1;
      std::from_chars(argument.data() + at + folder.size(), argument.data() + argument.size(), fd);
      if (fd >= first_unusual) out.push_back(fd);
    }
  }
  return out;
}

void sanitize_startup(const std::vector<std::string>& arguments) {
  // In this order, open() returns the missing number, since it is the lowest free one.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", O_RDWR);
  }
  set_close_on_exec_on_inherited();
  for (const std::string& argument : arguments) {
    for (const int fd : inherited_descriptors_in(argument)) set_flags_of(fd, 0);
  }
  std::signal(SIGCHLD, SIG_DFL);
  let_signals_end_process_1();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace dlaunch::launcher
