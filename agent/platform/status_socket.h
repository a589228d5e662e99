// Serves the status of this agent's job on an abstract Unix socket named after user and process: it leaves
// nothing behind when the agent is killed. A client of the same user or of root receives status(), then the
// connection is closed.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "store/base/result.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::agent {

// "dlaunch/<uid>/<pid>", without the zero byte in front.
std::string status_socket_name(unsigned uid, long pid);

class StatusSocket final : public FdHandler {
 public:
  // REQUIRES: `poller` outlives it. If no socket could be made it serves no client; the job does not fail for
  // that.
  StatusSocket(UvPoller& poller, std::function<std::string()> status);
  ~StatusSocket() override;
  StatusSocket(const StatusSocket&) = delete;
  StatusSocket& operator=(const StatusSocket&) = delete;

  void on_readable(int fd) override;
  void on_writable(int fd) override;

 private:
  void end(int client);

  UvPoller& poller_;
  const std::function<std::string()> status_;
  int listener_ = -1;
  std::map<int, std::string> unsent_;  // by client
};

}  // namespace dlaunch::agent
