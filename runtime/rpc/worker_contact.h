// How a worker is called, and where it is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/shared_memory/processors.h"
#include "runtime/sockets/handshake.h"

namespace dlaunch::internal {

// Devices of tensors in remote calls.
struct WorkerDevices {
  using Map = std::map<int, int>;  // the callee's devices, by those of this worker

  int count = 0;                                      // 0 to count - 1 exist
  std::vector<int> used = {};                         // empty: all
  std::map<std::string, Map, std::less<>> maps = {};  // by the callee's name

  bool operator==(const WorkerDevices&) const = default;
};

struct WorkerContact {
  std::string name;
  std::uint32_t id = 0;  // no other worker of the group ever has it
  std::string host;
  Contact contact;
  std::uint32_t rank = 0;  // its id, unless it has taken the rank over from a worker that is gone
  std::int32_t pid = 0;
  WorkerDevices devices = {};
  ProcessorSet processors = {};  // that it may use

  bool operator==(const WorkerContact&) const = default;
};

// Names of letters, digits, '_', '-', ':' and '.'; a reason why it is none, or empty.
std::string why_no_worker_name(const std::string& name);

// "worker ps (rank 2) on host b"; without a name, "worker 2"
std::string describe(const WorkerContact& worker);
// "worker ps (rank 2) on host b (pid 1234)"
std::string describe_process(const WorkerContact& worker);

// For the store.
std::string to_text(const WorkerContact& worker);
// Reads what to_text() has written; none: anything else.
std::optional<WorkerContact> parse_worker_contact(const std::string& text);

}  // namespace dlaunch::internal
