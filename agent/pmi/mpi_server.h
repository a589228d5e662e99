// What a node's MPI programs ask in one round, whichever protocol they speak: PMI-1 (pmi_server.h) or PMIx
// (pmix_server.h). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/model/pmi_entry.h"

namespace dlaunch::agent {

// How much of a request that cannot be carried out is quoted.
constexpr std::size_t quoted_request = 80;

// The world of a round, as this node sees it.
struct MpiWorld {
  std::string name;      // another one in each round of each job
  int slots = 0;         // ranks here
  int base_rank = 0;     // the first of them
  int size = 0;          // ranks in all
  std::string mapping;   // process_mapping()
  std::string folder{};  // for temporary files of the job, which removes it; empty: none
};

// --- actions ---

struct PmiReply {
  int client = 0;
  std::string bytes;
  bool operator==(const PmiReply&) const = default;
};
// Close its connection. `why`: what it did, for the log: "it sent an unknown command (cmd=x)".
struct PmiDrop {
  int client = 0;
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

class MpiServer {
 public:
  virtual ~MpiServer() = default;

  // `client`: a worker's local rank; the number of slots: the process that serves PMIx.
  virtual PmiActions on_bytes(int client, std::string_view bytes) = 0;
  // Values of all nodes for a barrier; `last`: these are the last ones, and it is over.
  virtual PmiActions on_released(std::uint32_t barrier, const std::vector<PmiEntry>& entries, bool last) = 0;

  // Its connection has ended by itself.
  virtual PmiActions on_closed(int client) = 0;
  virtual void on_returned_0(int local_rank) = 0;

  // The number of the barrier that is the next to be over.
  [[nodiscard]] virtual std::uint32_t barrier() const = 0;
  // A local rank waits for others.
  [[nodiscard]] virtual bool has_waiting() const = 0;
  // The local ranks that are known not to wait.
  [[nodiscard]] virtual std::vector<int> late() const = 0;
};

}  // namespace dlaunch::agent
