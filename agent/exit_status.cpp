#include "agent/exit_status.h"

#include <sys/wait.h>

#include <csignal>
#include <cstring>

namespace dlaunch::agent {
namespace {

const char* signal_meaning(int signo) {
  switch (signo) {
    case SIGSEGV:
      return "segmentation fault";
    case SIGBUS:
      return "bus error: often a full /dev/shm or a truncated mapped file";
    case SIGABRT:
      return "aborted";
    case SIGFPE:
      return "arithmetic error";
    case SIGILL:
      return "illegal instruction";
    case SIGKILL:
      return "killed; often by the kernel when memory ran out";
    case SIGTERM:
      return "terminated";
    case SIGINT:
      return "interrupted";
    case SIGHUP:
      return "hang-up";
    case SIGPIPE:
      return "broken pipe";
    case SIGXCPU:
      return "CPU time limit exceeded";
    case SIGSYS:
      return "forbidden system call";
    default:
      return nullptr;
  }
}

const char* code_meaning(int code) {
  switch (code) {
    case 126:
      return "126: a program that may not be executed";
    case 127:
      return "127: a command or shared library was not found";
    case 137:
      return "137: as if by signal 9";
    default:
      return nullptr;
  }
}

}  // namespace

ExitStatus ExitStatus::from_wait_status(int wait_status) {
  if (WIFSIGNALED(wait_status)) return {How::signaled, WTERMSIG(wait_status), WCOREDUMP(wait_status) != 0};
  return {How::exited, WEXITSTATUS(wait_status), false};
}

std::string signal_name(int signo) {
  const char* abbreviation = sigabbrev_np(signo);
  return abbreviation ? std::string("SIG") + abbreviation : "signal " + std::to_string(signo);
}

std::string describe(const ExitStatus& status) {
  if (status.how == ExitStatus::How::exited) {
    if (const char* meaning = code_meaning(status.number)) return std::string("exited with code ") + meaning;
    return "exited with code " + std::to_string(status.number);
  }
  std::string text =
      "was killed by signal " + std::to_string(status.number) + " (" + signal_name(status.number);
  if (const char* meaning = signal_meaning(status.number)) text += std::string(", ") + meaning;
  text += ")";
  if (status.core_dumped) text += ", core dumped";
  return text;
}

}  // namespace dlaunch::agent
