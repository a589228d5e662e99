// The connection to the agent: lines in both directions (agent/pmi/pmix_server.h).
#pragma once

#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "agent/pmi/pmi_request.h"

namespace dlaunch::agent {

// send() may be called from several threads; the rest from one.
class AgentConnection {
 public:
  // Owns `fd`.
  explicit AgentConnection(int fd) : fd_(fd) {}
  ~AgentConnection();
  AgentConnection(const AgentConnection&) = delete;
  AgentConnection& operator=(const AgentConnection&) = delete;

  // `lines`: each with its end. False: the agent has ended.
  bool send(const std::string& lines);
  // The next line; none: the agent has closed the connection, has sent what is no such line, or `patience`
  // has passed.
  std::optional<PmiRequest> receive(std::optional<std::chrono::seconds> patience = {});

 private:
  const int fd_;
  std::mutex sending_;
  PmiLines lines_;
  std::deque<std::optional<PmiRequest>> received_;
};

}  // namespace dlaunch::agent
