// The events of a job, for programs that watch it (--events). The state machines return these with their
// decisions.
#pragma once

#include <cstdint>
#include <string>

namespace dlaunch::agent {

enum class EventKind : std::uint8_t {
  // reported by the leader
  joined,     // a node joined
  left,       // a node left, on request or by itself
  lost,       // a node's agent ended or fell silent, or the node was excluded
  world,      // a new round begins
  restarted,  // one of --max-restarts was used up
  stalled,    // nothing moves while a rank waits; the job goes on (--hang-note)
  hung,       // the workers wait for each other and make no progress
  ended,      // the job ended
  // reported by each node about its own workers
  started,  // a worker started
  failed,   // a worker failed
};

struct Event {
  EventKind kind = EventKind::joined;
  std::uint32_t round = 0;
  int node_rank = -1;  // -1: the node has none, or the event concerns no node
  std::string host{};
  int rank = -1;  // -1: the event concerns no worker
  std::int64_t pid = 0;
  int nodes = 0;  // of a world
  int world_size = 0;
  int number = 0;      // of the restart
  std::string text{};  // why, in words
  // For events of a worker.
  int local_rank = -1;
  int role_rank = -1;
  int role_world_size = 0;
  int restarts = 0;  // used so far

  bool operator==(const Event&) const = default;
};

}  // namespace dlaunch::agent
