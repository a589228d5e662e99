#include "agent/model/worker_environment.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "agent/model/error_file.h"
#include "agent/model/flight_files.h"
#include "agent/model/worker_record.h"
#include "store/contract/worker_env.h"

namespace dlaunch::agent {
namespace {

std::string names_of(const std::vector<int>& signals) {
  std::string out;
  for (const int signo : signals) out.append(out.empty() ? "SIG" : ",SIG").append(sigabbrev_np(signo));
  return out;
}

// None: the program uses as many threads as it finds CPUs.
std::optional<int> omp_threads(const NodeSpec& node, const WorkerPlace& place, bool is_auto) {
  if (place.cores > 0) return place.cores;
  if (is_auto) return std::max(1, node.cpus / node.slots);
  return node.slots > 1 ? std::optional(1) : std::nullopt;
}

// What makes PyTorch able to say where a rank is; it changes nothing else.
void add_flight_recorder(Environment& out, const NodeSpec& node, std::uint32_t round,
                         std::uint32_t local_rank, const InheritedEnvironment& inherited) {
  const auto set = [&](bool is_set, std::string_view name, std::string value) {
    if (!is_set && !value.empty()) out.emplace_back(name, std::move(value));
  };
  set(inherited.has_fr_buffer_size, env::fr_buffer_size, std::to_string(flight_buffer_size));
  set(inherited.has_fr_dump_on_timeout, env::fr_dump_on_timeout, "1");
  if (node.scratch_dir.empty()) return;
  set(inherited.has_fr_dump_file, env::fr_dump_file, flight_file_prefix(node.scratch_dir, round));
  set(inherited.has_worker_server_socket, env::worker_server_socket,
      worker_server_path(node.scratch_dir, round, local_rank));
  set(inherited.has_torch_socket, env::torch_socket, torch_socket_path(node.scratch_dir, round, local_rank));
}

}  // namespace

Environment worker_environment(const JobSpec& job, const NodeSpec& node, const World& world, int local_rank,
                               const InheritedEnvironment& inherited) {
  const WorldMember& self = *world.member(node.agent);
  Environment out;
  const auto set = [&](std::string_view name, std::string value) {
    out.emplace_back(name, std::move(value));
  };
  const auto number = [&](std::string_view name, std::int64_t value) { set(name, std::to_string(value)); };

  const int rank = self.base_rank + local_rank;
  static const WorkerPlace anywhere;
  const WorkerPlace& place =
      node.places.empty() ? anywhere : node.places[static_cast<std::size_t>(local_rank)];
  number(env::rank, rank);
  number(env::local_rank, node.virtual_local_rank ? 0 : local_rank);
  number(env::world_size, world.world_size);
  number(env::local_world_size, self.slots);
  number(env::group_rank, self.node_rank);
  number(env::group_world_size, world.nodes);
  set(env::role_name, node.role);
  number(env::role_rank, self.role_base + local_rank);
  number(env::role_world_size, self.role_world_size);
  set(env::master_addr, world.store.host);
  number(env::master_port, node.worker_store != 0 ? node.worker_store : world.store.port);
  number(env::restart_count, world.restarts_used);
  number(env::max_restarts, job.max_restarts);
  set(env::run_id, job.id);
  set(env::use_agent_store, node.worker_store != 0 ? "False" : "True");
  if (!node.error_files) {
    set(env::error_file, "");
  } else if (!node.scratch_dir.empty()) {
    set(env::error_file,
        error_file_path(node.scratch_dir, world.round, static_cast<std::uint32_t>(local_rank)));
  }
  if (!node.timer_file.empty()) set(env::timer_file, node.timer_file);
  set(env::signals_to_handle, names_of(node.stop_signals));
  if (!inherited.has_nccl_async_error_handling) set(env::nccl_async_error_handling, "1");
  if (!inherited.has_omp_num_threads) {
    const auto threads = omp_threads(node, place, inherited.omp_num_threads_is_auto);
    if (threads) number(env::omp_num_threads, *threads);
  }
  if (!inherited.has_gloo_store_v2) set(env::gloo_store_v2, "1");
  if (!inherited.has_gloo_sequence_number) set(env::gloo_sequence_number, "1");
  add_flight_recorder(out, node, world.round, static_cast<std::uint32_t>(local_rank), inherited);
  if (!place.cuda_visible_devices.empty()) set(env::cuda_visible_devices, place.cuda_visible_devices);
  if (!place.hip_visible_devices.empty()) set(env::hip_visible_devices, place.hip_visible_devices);
  if (!job.accelerate.empty()) {
    set(env::accelerate, job.accelerate);
    const std::string& rest = inherited.python_path;
    if (!node.python_package.empty())
      set(env::python_path, node.python_package + (rest.empty() ? "" : ":" + rest));
  }
  set(env::version, DLAUNCH_VERSION);
  set(env::job_id, job.id);
  number(env::round, world.round);
  number(env::fencing_token, static_cast<std::int64_t>(world.fencing));
  if (!node.store_key_file.empty() && node.worker_store == 0) set(env::store_key_file, node.store_key_file);
  if (!node.pages_dir.empty()) {
    set(env::worker_page,
        worker_page_path(node.pages_dir, world.round, static_cast<std::uint32_t>(local_rank)));
  }
  return out;
}

std::vector<std::string> worker_arguments(const std::vector<std::string>& command, int local_rank) {
  static constexpr std::string_view placeholder = "${local_rank}";
  const std::string number = std::to_string(local_rank);
  std::vector<std::string> out = command;
  for (std::string& argument : out) {
    for (std::size_t at = argument.find(placeholder); at != std::string::npos;
         at = argument.find(placeholder, at + number.size())) {
      argument.replace(at, placeholder.size(), number);
    }
  }
  return out;
}

}  // namespace dlaunch::agent
