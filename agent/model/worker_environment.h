// The environment of one worker: torchrun's variables and dlaunch's own (store/contract/worker_env.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "agent/model/job.h"

namespace dlaunch::agent {

using Environment = std::vector<std::pair<std::string, std::string>>;

// Which variables the user has set already. They keep their values. (All true: those that are unset stay
// unset.)
struct InheritedEnvironment {
  bool has_omp_num_threads = false;
  bool has_nccl_async_error_handling = false;
  bool has_gloo_store_v2 = false;
  bool has_gloo_sequence_number = false;
  bool omp_num_threads_is_auto = false;  // its value is "auto": dlaunch chooses it
  std::string python_path{};             // PYTHONPATH; empty: none
  // Of PyTorch's flight recorder, under any of their names (store/contract/worker_env.h).
  bool has_fr_buffer_size = false;
  bool has_fr_dump_on_timeout = false;
  bool has_fr_dump_file = false;
  bool has_worker_server_socket = false;
  bool has_torch_socket = false;
};

// OMP_NUM_THREADS, if dlaunch chooses it: the cores a worker is bound to; else, if it is "auto", the worker's
// share of the node's CPUs; else 1 if it is not the only worker of the node.
//
// REQUIRES: `node` is a member of `world`, 0 <= local_rank < node.slots.
Environment worker_environment(const JobSpec& job, const NodeSpec& node, const World& world, int local_rank,
                               const InheritedEnvironment& inherited);

// Replaces ${local_rank} by the number; everything else, also "$$", stays as it is.
std::vector<std::string> worker_arguments(const std::vector<std::string>& command, int local_rank);

}  // namespace dlaunch::agent
