// The process that serves PMIx to this node's workers in one round (agent/pmix): its start and its end.
#pragma once

#include <sys/types.h>

#include <string>

namespace dlaunch::agent {

// Not thread-safe.
class PmixProcess {
 public:
  PmixProcess() = default;
  ~PmixProcess() { end(); }
  PmixProcess(const PmixProcess&) = delete;
  PmixProcess& operator=(const PmixProcess&) = delete;

  // REQUIRES: none runs. `connection`: becomes its descriptor 3. Returns why it cannot be started; empty: it
  // has been.
  std::string start(const std::string& program, int connection);
  // It ends by itself when its connection is closed, which the caller does first. Kills it if it does not.
  void end();
  [[nodiscard]] pid_t pid() const { return pid_; }  // 0: none runs

 private:
  pid_t pid_ = 0;
};

}  // namespace dlaunch::agent
