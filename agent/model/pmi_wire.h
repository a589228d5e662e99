// The connections over which MPI programs ask this node's agent, as an interface. Production: PmiSockets;
// tests have their own.
#pragma once

#include <string>
#include <string_view>

#include "agent/model/spawner.h"

namespace dlaunch::agent {

class PmiWireHandler {
 public:
  virtual ~PmiWireHandler() = default;
  virtual void on_pmi_bytes(ProcKey key, std::string_view bytes) = 0;
  // The other side has closed it.
  virtual void on_pmi_closed(ProcKey key) = 0;
};

// The connections of workers that were started with Command::speaks_pmi, and of the process that serves PMIx.
// Calls for one that has ended do nothing.
class PmiWire {
 public:
  virtual ~PmiWire() = default;
  virtual void set_handler(PmiWireHandler& handler) = 0;
  virtual void send(ProcKey key, std::string_view bytes) = 0;
  virtual void close(ProcKey key) = 0;
  // Takes what has come, before anything else that has happened is looked at.
  virtual void take_now(ProcKey key) = 0;
  // Starts the process that serves PMIx to the workers of key.round (agent/pmix), with the connection `key`;
  // ends the one of an earlier round. Returns why it cannot be started; empty: it has been.
  virtual std::string start_pmix(ProcKey key) = 0;
};

}  // namespace dlaunch::agent
