// What this worker's remote calls are doing.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "dlaunch/export.h"

namespace dlaunch {
inline namespace v1 {
namespace rpc {

// A call that is under way.
struct CallInfo {
  enum class State : std::uint8_t {
    queued,   // made here: no byte of it has left yet
    sent,     // made here: the other worker may have it
    waiting,  // made by the other worker: no thread runs it yet
    running,  // made by the other worker: its function runs, or the future that it has returned is not done
  };
  std::string worker;    // the other one
  std::string function;  // at most 56 bytes of its name
  State state;
  std::chrono::nanoseconds age;  // since it was made, or has arrived
};

// Counts begin with init_rpc. The messages by which workers keep references are not among them.
struct DebugInfo {
  std::vector<CallInfo> made;    // by this worker, the oldest first. Of thousands, some are missing here
  std::vector<CallInfo> served;  // for other workers

  std::uint64_t calls = 0;  // made so far
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
  std::chrono::nanoseconds total_latency{};    // the sum over those that have succeeded
  std::chrono::nanoseconds longest_latency{};  // of these
  std::uint64_t arrived = 0;                   // calls of other workers so far
  std::uint64_t answered = 0;
  std::uint64_t answered_with_error = 0;  // among these
  std::uint64_t bytes_sent = 0;           // of arguments and results, with a few bytes for each call
  std::uint64_t bytes_received = 0;

  std::uint64_t owned_references = 0;    // values of this worker that RRefs refer to
  std::uint64_t used_references = 0;     // values of other workers to which RRefs of this one refer
  std::uint64_t pending_references = 0;  // passed to others, which have not confirmed them yet
};

// Throws DistError outside init_rpc and shutdown. Any thread.
DLAUNCH_EXPORT DebugInfo get_debug_info();

}  // namespace rpc
}  // namespace v1
}  // namespace dlaunch
