// The processes that spawn() starts, as their parent sees them.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/api/spawned_rank.h"
#include "runtime/group/first_failure.h"

namespace dlaunch::internal {

class OwnedDescriptor {
 public:
  explicit OwnedDescriptor(int fd = -1) : fd_(fd) {}
  ~OwnedDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  OwnedDescriptor(OwnedDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedDescriptor& operator=(OwnedDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

// A pidfd: readable when the process has ended. -1 with errno if there is none.
int process_handle(pid_t pid);

// The folder with the file through which the processes meet; its last user removes it.
class RendezvousFolder {
 public:
  RendezvousFolder();  // throws DistError
  ~RendezvousFolder();
  RendezvousFolder(const RendezvousFolder&) = delete;
  RendezvousFolder& operator=(const RendezvousFolder&) = delete;
  [[nodiscard]] std::string file() const { return folder_ + "/store"; }

 private:
  std::string folder_;
};

struct SpawnedProcess {
  int rank = -1;
  pid_t pid = -1;
  OwnedDescriptor handle;  // as process_handle() makes it
  OwnedDescriptor report;  // the error it threw
  bool by_exec = false;
  bool ended = false;
};

// A copy of this process. Throws DistError.
SpawnedProcess fork_rank(const SpawnOrder& order, const std::function<void(int rank)>& body);

// Executes this program again; run_if_spawned() calls the function of this name there. Other threads may run.
// Throws DistError.
SpawnedProcess exec_rank(const SpawnOrder& order, const std::string& function,
                         const std::vector<std::string>& arguments);

// Waits for the process's end and returns its failure, or nothing.
std::optional<RankFailure> reap(SpawnedProcess& process);

}  // namespace dlaunch::internal
