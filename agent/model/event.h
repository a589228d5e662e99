// What happened to a job, for programs that watch it (--events). The machines return these beside their
// decisions.
#pragma once

#include <cstdint>
#include <string>

namespace dlaunch::agent {

enum class EventKind : std::uint8_t {
  // told by who leads
  joined,     // a node came
  left,       // it went, as it was told to or by itself
  lost,       // it is gone without a word, or was left out
  world,      // a new round begins
  restarted,  // one of --max-restarts was used up
  hung,       // its workers wait for each other in vain
  ended,      // the job
  // told by each node of its own
  started,  // a worker
  failed,   // a worker
};

struct Event {
  EventKind kind = EventKind::joined;
  std::uint32_t round = 0;
  int node_rank = -1;  // -1: it has none, or no node is meant
  std::string host{};
  int rank = -1;  // -1: no worker is meant
  std::int64_t pid = 0;
  int nodes = 0;  // of a world
  int world_size = 0;
  int number = 0;      // of the restart
  std::string text{};  // why, in words
  // Of a worker.
  int local_rank = -1;
  int role_rank = -1;
  int role_world_size = 0;
  int restarts = 0;  // of --max-restarts, until then

  bool operator==(const Event&) const = default;
};

}  // namespace dlaunch::agent
