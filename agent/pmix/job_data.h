// What an MPI program may ask PMIx about its job: sizes, and which rank is where. Pure, but for PMIx's
// memory.
#pragma once

#include <pmix_server.h>

#include <optional>
#include <string>
#include <vector>

#include "agent/pmi/pmi_request.h"

namespace dlaunch::agent {

// As the agent describes it (agent/pmi/pmix_server.h).
struct PmixWorld {
  std::string name;
  int base_rank = 0;          // the first rank here
  int slots = 0;              // ranks here
  std::vector<int> of_nodes;  // ranks of each node, by node rank; their sum is the world's size
  std::size_t own_node = 0;   // this one
  std::string folder;         // for temporary files, removed with the job; empty: none

  [[nodiscard]] int size() const;
  // The node's name in the job's map, which has to be another one for each node.
  [[nodiscard]] std::string node_name(std::size_t node) const;
};

// None: it is not such a description.
std::optional<PmixWorld> world_of(const PmiRequest& description);

// The job's data in PMIx's form; freed with it.
class JobData {
 public:
  explicit JobData(const PmixWorld& world);
  ~JobData();
  JobData(const JobData&) = delete;
  JobData& operator=(const JobData&) = delete;

  [[nodiscard]] pmix_info_t* data() { return infos_.data(); }
  [[nodiscard]] std::size_t size() const { return infos_.size(); }

 private:
  void add_map(const PmixWorld& world);
  void add_rank(const PmixWorld& world, int rank, int local_rank, std::size_t node);

  std::vector<pmix_info_t> infos_;
};

}  // namespace dlaunch::agent
