#include "runtime/shared_memory/process_end.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace dlaunch::internal {

namespace {

namespace fs = std::filesystem;

enum class Memory { present, none, unknown };

// Of a process or thread. statm has zeros for one without memory, and the kernel takes no lock of the memory
// for it, as process_vm_readv does.
Memory memory_of(const std::string& folder) {
  const int file = open((folder + "/statm").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno == ENOENT ? Memory::none : Memory::unknown;
  char text[2] = {};
  const ssize_t got = read(file, text, sizeof text);
  const int error = errno;
  close(file);
  if (got < 0) return error == ESRCH ? Memory::none : Memory::unknown;
  return std::string_view(text, static_cast<std::size_t>(got)) == "0 " ? Memory::none : Memory::present;
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
  if (memory_of(folder) != Memory::none || own_pid_namespace() != pid_namespace) return false;
  if (kill(pid, 0) != 0) return errno == ESRCH;  // /proc may hide a process
  // The first thread may have ended alone.
  std::error_code error;
  fs::directory_iterator thread(folder + "/task", error);
  for (; !error && thread != fs::directory_iterator(); thread.increment(error)) {
    if (memory_of(thread->path()) != Memory::none) return false;
  }
  return !error;
}

}  // namespace dlaunch::internal
