// The connections of PMI between this agent and its workers, and the process that serves PMIx to them: a pair
// of sockets for each. A worker inherits its end, whose number is in PMI_FD; so no other process can reach
// it, and no port is open.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "agent/model/pmi_wire.h"
#include "agent/process/pmix_process.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::agent {

// Not thread-safe.
class PmiSockets final : public PmiWire, public FdHandler {
 public:
  // `poller`: not owned. `pmix_program`: dlaunch-pmix; empty: there is none.
  explicit PmiSockets(UvPoller& poller, std::string pmix_program = "")
      : poller_(poller), pmix_program_(std::move(pmix_program)) {}
  ~PmiSockets() override;
  PmiSockets(const PmiSockets&) = delete;
  PmiSockets& operator=(const PmiSockets&) = delete;

  // Makes a worker's connection, and closes those of earlier rounds. Returns the worker's end, which the
  // caller closes; -1: there is none, and errno says why.
  int open(ProcKey key);

  void set_handler(PmiWireHandler& handler) override { handler_ = &handler; }
  // Closes the connection of a worker that does not read its answers.
  void send(ProcKey key, std::string_view bytes) override;
  void close(ProcKey key) override;
  void take_now(ProcKey key) override;
  std::string start_pmix(ProcKey key) override;

  void on_readable(int fd) override;
  void on_writable(int) override {}

 private:
  void read(int fd, ProcKey key);

  UvPoller& poller_;
  const std::string pmix_program_;
  PmixProcess pmix_;
  PmiWireHandler* handler_ = nullptr;
  std::map<ProcKey, int> by_key_;
  std::map<int, ProcKey> by_fd_;
};

}  // namespace dlaunch::agent
