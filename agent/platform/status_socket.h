// Where this agent tells how its job stands: an abstract Unix socket named after user and process, so that
// nothing is left behind when the agent is killed. Whoever connects, and is the same user or root, gets
// status() and the end.
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
  // REQUIRES: `poller` outlives it. Without a socket (none could be made) it serves nobody; a job does not
  // fail for that.
  StatusSocket(UvPoller& poller, std::function<std::string()> status);
  ~StatusSocket() override;
  StatusSocket(const StatusSocket&) = delete;
  StatusSocket& operator=(const StatusSocket&) = delete;

  void on_readable(int fd) override;
  void on_writable(int fd) override;

 private:
  void end(int visitor);

  UvPoller& poller_;
  const std::function<std::string()> status_;
  int listener_ = -1;
  std::map<int, std::string> unsent_;  // by visitor
};

}  // namespace dlaunch::agent
