#include "runtime/shared_memory/process_end.h"

#include <sys/uio.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>

namespace dlaunch::internal {

namespace {

namespace fs = std::filesystem;

// The kernel reports ESRCH for a thread without memory, also to a process that may not read it.
bool has_memory(pid_t thread, const ProcessMemory& process) {
  std::uint64_t token = 0;
  const iovec local = {&token, sizeof token};
  const iovec remote = {std::bit_cast<void*>(static_cast<std::uintptr_t>(process.token_address)),
                        sizeof token};
  return process_vm_readv(thread, &local, 1, &remote, 1, 0) >= 0 || errno != ESRCH;
}

pid_t number_of(const fs::path& thread) {
  const std::string name = thread.filename();
  pid_t number = 0;
  (void)std::from_chars(name.data(), name.data() + name.size(), number);
  return number;
}

}  // namespace

bool has_ended(const ProcessMemory& process) {
  const auto pid = static_cast<pid_t>(process.process);
  if (pid <= 0 || has_memory(pid, process)) return false;
  if (process.pid_namespace == 0 || process.pid_namespace != own_pid_namespace()) return false;
  // The first thread may have ended alone.
  std::error_code error;
  fs::directory_iterator thread("/proc/" + std::to_string(pid) + "/task", error);
  if (error) return error == std::errc::no_such_file_or_directory && fs::exists("/proc/self/task", error);
  for (; !error && thread != fs::directory_iterator(); thread.increment(error)) {
    if (has_memory(number_of(thread->path()), process)) return false;
  }
  return !error;
}

}  // namespace dlaunch::internal
