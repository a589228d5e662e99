// Answers other hosts' measurements, on a thread of its own.
#pragma once

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "store/base/result.h"

namespace dlaunch::launcher {

class ProbeServer {
 public:
  // `key`: what connections must begin with. Others are closed.
  explicit ProbeServer(std::string key) : key_(std::move(key)) {}
  ~ProbeServer();
  ProbeServer(const ProbeServer&) = delete;
  ProbeServer& operator=(const ProbeServer&) = delete;

  // Listens on all interfaces; 0: at a port that the kernel chooses. Returns the port. Before start().
  Result<std::uint16_t> listen(std::uint16_t port);
  // A connection that is silent for a minute is closed.
  Result<void> start();

 private:
  void serve();

  const std::string key_;
  std::vector<int> listeners_;
  int stop_pipe_[2] = {-1, -1};
  std::thread thread_;
};

}  // namespace dlaunch::launcher
