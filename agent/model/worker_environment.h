// The environment of one worker: torchrun's variables and dlaunch's own (store/contract/worker_env.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "agent/model/job.h"

namespace dlaunch::agent {

using Environment = std::vector<std::pair<std::string, std::string>>;

// Which variables are set already and therefore left alone: by the user, or all of them, to leave those unset
// that are.
struct InheritedEnvironment {
  bool has_omp_num_threads = false;
  bool has_nccl_async_error_handling = false;
  bool has_gloo_store_v2 = false;
  bool has_gloo_sequence_number = false;
  bool omp_num_threads_is_auto = false;  // asked for by that word, and so left to us
};

// OMP_NUM_THREADS, where it is left to us: the cores a worker is bound to; else, where it is auto, its share
// of the node's CPUs; else 1 where it is not the only worker of the node.
//
// REQUIRES: `node` is a member of `world`, 0 <= local_rank < node.slots.
Environment worker_environment(const JobSpec& job, const NodeSpec& node, const World& world, int local_rank,
                               const InheritedEnvironment& inherited);

// ${local_rank} becomes the number; everything else, "$$" too, stays as it is.
std::vector<std::string> worker_arguments(const std::vector<std::string>& command, int local_rank);

}  // namespace dlaunch::agent
