// What Open MPI's programs of one node ask in one round: a pure state machine between the workers, the
// process that serves PMIx to them (agent/pmix), and the other nodes.
//
// PMIx is the interface of a library, not a protocol: each version of it reads the others' messages. So that
// library answers the programs, in a process of its own, since dlaunch is linked statically and must not fail
// with it. That process knows this node only. It has the connection number `slots`, and speaks lines as PMI-1
// does (pmi_request.h), with values in base64:
//
//   it sends                           and gets
//   cmd=world                          cmd=world name=NAME rank=FIRST slots=COUNT size=SIZE mapping=MAPPING
//                                          folder=F
//   cmd=variable rank=L name=N value=V     a variable of local rank L, which must be in its environment
//   cmd=ready                              the ranks may start
//   cmd=connected rank=L, cmd=finalized rank=L
//   cmd=data value=V, cmd=fence        cmd=released, when all nodes are in that fence
//   cmd=next                           cmd=data value=V, or cmd=end: all nodes' data, in pieces
//   cmd=abort rank=L code=C
//
// A worker is started by the same program, which sends cmd=variables, gets each as "cmd=variable name=N
// value=V" and then cmd=start, and becomes the worker.
//
// The answers are asked for one by one, because the sender of an answer never waits for room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/model/pmi_entry.h"
#include "agent/pmi/mpi_server.h"
#include "agent/pmi/pmi_request.h"

namespace dlaunch::agent {

// Of all variables of one rank, by their lines.
inline constexpr std::size_t most_pmix_variables = std::size_t{64} << 10;

class PmixServer final : public MpiServer {
 public:
  explicit PmixServer(MpiWorld world);

  PmiActions on_bytes(int client, std::string_view bytes) override;
  PmiActions on_released(std::uint32_t barrier, const std::vector<PmiEntry>& entries, bool last) override;
  PmiActions on_closed(int client) override;
  void on_returned_0(int local_rank) override;
  [[nodiscard]] std::uint32_t barrier() const override { return barrier_; }
  [[nodiscard]] bool has_waiting() const override;
  [[nodiscard]] std::vector<int> late() const override;

 private:
  struct Client {
    PmiLines lines;
    bool is_over = false;  // nothing more is read from it
  };
  struct Rank {
    enum class State { absent, connected, finalized, left };
    State state = State::absent;
    bool asks = false;      // for its variables
    std::string variables;  // the lines of its answer
  };

  [[nodiscard]] int helper() const { return world_.slots; }
  bool on_line(int client, std::string_view line, PmiActions& out);
  bool on_worker_request(int local_rank, const PmiRequest& request, PmiActions& out);
  bool on_helper_request(const PmiRequest& request, PmiActions& out);
  bool on_rank_request(const PmiRequest& request, Rank& rank, int local_rank, PmiActions& out);
  bool on_data(const PmiRequest& request, PmiActions& out);
  bool on_next(PmiActions& out);
  bool drop(int client, std::string why, PmiActions& out);
  void start(int local_rank, PmiActions& out) const;
  void reply(int client, std::string lines, PmiActions& out) const;

  MpiWorld world_;
  std::vector<Client> clients_;  // the workers, and the helper
  std::vector<Rank> ranks_;
  bool is_ready_ = false;
  bool is_fencing_ = false;          // all ranks of this node are in a fence
  std::vector<PmiEntry> published_;  // for the next fence
  std::size_t published_bytes_ = 0;
  // Of the fence that is not over, by node: its pieces in their order.
  std::map<std::string, std::vector<std::string>> arrived_;
  std::deque<std::string> released_;  // of the last fence, which the helper has yet to take
  std::uint32_t barrier_ = 0;
};

}  // namespace dlaunch::agent
