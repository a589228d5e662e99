// The PMI-1 server of one node in one round: a pure state machine. It answers the MPI programs that run here
// as the node's workers; what they publish reaches the other nodes with the next barrier.
//
//   rank:  new --init--> started --barrier_in--> waits --all nodes are there--> started --finalize--> over
//
// A key-value space begins empty with each round, since the ranks that published its values are gone. A put
// is seen by the ranks of this node at once and by others after the next barrier, which is what PMI promises.
//
// Barriers and values travel through the agents' protocol (agent/control/pmi_barrier.h) and not through the
// round's store: the agents have no asynchronous client of a store, a store may be served by worker rank 0
// (then there is none), and the coordinator must know in any case which ranks are missing.
//
// A client that does not keep to the protocol is dropped: it gets no further answer, and its connection is
// closed. Memory is bounded: a line's length for each rank, and most_pmi_bytes for all values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "agent/model/pmi_entry.h"
#include "agent/pmi/pmi_request.h"

namespace dlaunch::agent {

// --- actions ---

struct PmiReply {
  int local_rank = 0;
  std::string bytes;
  bool operator==(const PmiReply&) const = default;
};
// Close its connection. `why`: what it did, for the log: "it sent an unknown command (cmd=x)".
struct PmiDrop {
  int local_rank = 0;
  std::string why;
  bool operator==(const PmiDrop&) const = default;
};
// All ranks of this node are in the barrier of this number, the first of a round being 0. `entries`: what
// they have published since the barrier before. Answered by on_released().
struct PmiArrived {
  std::uint32_t barrier = 0;
  std::vector<PmiEntry> entries;
  bool operator==(const PmiArrived&) const = default;
};
// The rank ends the job (MPI_Abort) with this code. It waits to be killed.
struct PmiAborted {
  int local_rank = 0;
  int code = 0;
  bool operator==(const PmiAborted&) const = default;
};
using PmiAction = std::variant<PmiReply, PmiDrop, PmiArrived, PmiAborted>;
using PmiActions = std::vector<PmiAction>;

class PmiServer {
 public:
  struct World {
    std::string name;     // of the key-value space: another one in each round of each job
    int slots = 0;        // ranks here
    int size = 0;         // ranks in all
    std::string mapping;  // process_mapping()
  };

  explicit PmiServer(World world)
      : world_(std::move(world)), ranks_(static_cast<std::size_t>(world_.slots)) {}

  // REQUIRES: 0 <= local_rank < slots.
  PmiActions on_bytes(int local_rank, std::string_view bytes);
  // Values of all nodes for a barrier; `last`: these are the last ones, and it is over.
  PmiActions on_released(std::uint32_t barrier, const std::vector<PmiEntry>& entries, bool last);

  // The number of the barrier that is the next to be over.
  [[nodiscard]] std::uint32_t barrier() const { return barrier_; }
  // A local rank waits in that barrier.
  [[nodiscard]] bool has_waiting() const;
  // The local ranks that do not.
  [[nodiscard]] std::vector<int> late() const;

 private:
  struct Rank {
    enum class State { fresh, started, waiting, over };
    State state = State::fresh;
    PmiLines lines;
    bool in_spawn = false;  // between mcmd=spawn and endcmd
    int spawns_left = 0;    // further such requests that the one answer is for
  };
  struct Call;

  bool on_line(int local_rank, std::string_view line, PmiActions& out);
  bool on_spawn_line(Rank& rank, int local_rank, std::string_view line, PmiActions& out) const;
  void on_request(const Call& call, PmiActions& out);
  void on_init(const Call& call, PmiActions& out) const;
  void on_put(const Call& call, PmiActions& out);
  void on_get(const Call& call, PmiActions& out) const;
  void on_get_by_index(const Call& call, PmiActions& out) const;
  void on_barrier(const Call& call, PmiActions& out);
  bool drop(int local_rank, std::string why, PmiActions& out);
  bool store(const PmiEntry& entry);
  std::vector<PmiEntry> take_published();

  World world_;
  std::vector<Rank> ranks_;
  std::map<std::string, std::string, std::less<>> values_;
  std::size_t bytes_ = 0;
  std::set<std::string> published_;  // keys that ranks of this node have put since the last barrier
  std::uint32_t barrier_ = 0;
};

}  // namespace dlaunch::agent
