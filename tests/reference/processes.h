// torch.multiprocessing's Process, for the programs of the documents that start their ranks themselves: a
// copy of this process that runs a function.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "tests/store/client/reserved_port.h"

namespace reference {

class Process {
 public:
  explicit Process(const std::function<void()>& target) : pid_(fork()) {
    if (pid_ != 0) return;
    try {
      target();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      _exit(1);
    }
    _exit(0);
  }
  // Whether it has ended well.
  bool join() const {
    int status = 0;
    return waitpid(pid_, &status, 0) == pid_ && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  pid_t pid_;
};

// Runs target(rank) in `size` processes; main()'s exit code.
inline int run_processes(int size, const std::function<void(int rank)>& target) {
  std::vector<Process> processes;
  processes.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) processes.emplace_back([&, rank] { target(rank); });
  int code = 0;
  for (const Process& process : processes) {
    if (!process.join()) code = 1;
  }
  return code;
}

// os.environ['MASTER_ADDR'] and os.environ['MASTER_PORT'], where the documents have 29500 or 29501, which
// some other program may hold. The object keeps the port for this one.
class Master {
 public:
  Master() {
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", std::to_string(port()).c_str(), 1);
  }
  [[nodiscard]] std::uint16_t port() const { return port_.address().port; }

 private:
  dlaunch::test::ReservedPort port_;
};

}  // namespace reference
