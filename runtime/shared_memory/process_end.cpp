#include "runtime/shared_memory/process_end.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>
#include <system_error>

#include "store/base/small_file.h"

namespace dlaunch::internal {

namespace {

namespace fs = std::filesystem;

// Of a process or thread, by its folder in /proc; false if it cannot be known. For one without memory statm
// has zeros. To read it the kernel takes no lock of the memory; process_vm_readv would wait for one.
bool has_no_memory(const std::string& folder) {
  const auto statm = store::read_plain_file(folder + "/statm", 2);
  return statm && statm->text == "0 ";
}

}  // namespace

std::uint64_t own_pid_namespace() {
  std::error_code error;
  if (fs::read_symlink("/proc/self", error) != std::to_string(getpid())) return 0;
  struct stat about {};
  return stat("/proc/self/ns/pid", &about) == 0 ? about.st_ino : 0;
}

bool seems_ended(std::uint64_t process, std::uint64_t pid_namespace) {
  const auto pid = static_cast<pid_t>(process);
  if (pid <= 0 || pid_namespace == 0) return false;
  const std::string folder = "/proc/" + std::to_string(pid);
  const bool is_gone = kill(pid, 0) != 0 && errno == ESRCH;  // /proc may hide a process
  if (!is_gone && !has_no_memory(folder)) return false;
  if (own_pid_namespace() != pid_namespace) return false;
  if (is_gone) return true;
  // The first thread may have ended alone.
  std::error_code error;
  fs::directory_iterator thread(folder + "/task", error);
  for (; !error && thread != fs::directory_iterator(); thread.increment(error)) {
    if (!has_no_memory(thread->path())) return false;
  }
  return !error;
}

}  // namespace dlaunch::internal
