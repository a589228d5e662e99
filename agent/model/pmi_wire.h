// The connections over which MPI programs ask this node's agent (PMI-1), as an interface. Production:
// PmiSockets; tests have their own.
#pragma once

#include <string_view>

#include "agent/model/spawner.h"

namespace dlaunch::agent {

class PmiWireHandler {
 public:
  virtual ~PmiWireHandler() = default;
  virtual void on_pmi_bytes(ProcKey key, std::string_view bytes) = 0;
};

// The connections of workers that were started with Command::speaks_pmi. Calls for one that has ended do
// nothing.
class PmiWire {
 public:
  virtual ~PmiWire() = default;
  virtual void set_handler(PmiWireHandler& handler) = 0;
  virtual void send(ProcKey key, std::string_view bytes) = 0;
  virtual void close(ProcKey key) = 0;
};

}  // namespace dlaunch::agent
