#include "agent/model/exit_status.h"

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
    case SIGXFSZ:
      return "file size limit exceeded";
    case SIGSYS:
      return "forbidden system call";
    default:
      return nullptr;
  }
}

// The usual meaning of a code; shells and containers return 128 + n for signal n.
std::string code_meaning(int code) {
  if (code == 126) return "a command was found but may not be executed";
  if (code == not_found_code) return "a command, interpreter or shared library was not found";
  const int signo = code - 128;
  const char* meaning = signal_meaning(signo);
  if (!meaning) return "";
  return "as if by signal " + std::to_string(signo) + " (" + signal_name(signo) + ", " + meaning + ")";
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

std::string describe(const ExitStatus& status, const std::string& known_cause) {
  std::string text;
  if (status.how == ExitStatus::How::exited) {
    text = "exited with code " + std::to_string(status.number);
    const std::string meaning = known_cause.empty() ? code_meaning(status.number) : "";
    if (!meaning.empty()) text += ": " + meaning;
  } else {
    text = "was killed by signal " + std::to_string(status.number) + " (" + signal_name(status.number);
    const char* meaning = known_cause.empty() ? signal_meaning(status.number) : nullptr;
    if (meaning) text += std::string(", ") + meaning;
    text += ")";
    if (status.core_dumped) text += ", core dumped";
  }
  if (!known_cause.empty()) text += ": " + known_cause;
  return text;
}

std::string describe_briefly(const ExitStatus& status) {
  if (status.success()) return "returned 0";
  if (status.how == ExitStatus::How::signaled) return "was killed by " + signal_name(status.number);
  return "exited with code " + std::to_string(status.number);
}

}  // namespace dlaunch::agent
