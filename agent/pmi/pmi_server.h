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
#include <vector>

#include "agent/model/pmi_entry.h"
#include "agent/pmi/mpi_server.h"
#include "agent/pmi/pmi_request.h"

namespace dlaunch::agent {

class PmiServer final : public MpiServer {
 public:
  explicit PmiServer(MpiWorld world)
      : world_(std::move(world)), ranks_(static_cast<std::size_t>(world_.slots)) {}

  // REQUIRES: 0 <= client < slots.
  PmiActions on_bytes(int client, std::string_view bytes) override;
  PmiActions on_released(std::uint32_t barrier, const std::vector<PmiEntry>& entries, bool last) override;
  PmiActions on_closed(int) override { return {}; }
  void on_returned_0(int) override {}
  [[nodiscard]] std::uint32_t barrier() const override { return barrier_; }
  [[nodiscard]] bool has_waiting() const override;
  [[nodiscard]] std::vector<int> late() const override;

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

  MpiWorld world_;
  std::vector<Rank> ranks_;
  std::map<std::string, std::string, std::less<>> values_;
  std::size_t bytes_ = 0;
  std::set<std::string> published_;  // keys that ranks of this node have put since the last barrier
  std::uint32_t barrier_ = 0;
};

}  // namespace dlaunch::agent
