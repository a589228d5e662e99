#include "dlaunch/distributed.h"

#include <algorithm>
#include <array>
#include <functional>

#include "runtime/base/comma_separated.h"
#include "runtime/base/deadline.h"
#include "runtime/base/process_environment.h"
#include "runtime/group/world.h"
#include "store/base/number.h"
#include "store/contract/worker_env.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {

namespace {

void require_disjoint(const char* operation, std::span<const std::vector<int>> parts) {
  std::vector<int> seen;
  for (const std::vector<int>& members : parts) seen.insert(seen.end(), members.begin(), members.end());
  std::ranges::sort(seen);
  if (const auto twice = std::ranges::adjacent_find(seen); twice != seen.end()) {
    throw DistError(std::string(operation) + ": rank " + std::to_string(*twice) + " is in two groups");
  }
}

std::string in_words(std::span<const std::vector<int>> parts) {
  std::string text;
  for (const std::vector<int>& members : parts) text += (text.empty() ? "" : "; ") + comma_separated(members);
  return "[" + text + "]";
}

// `check` throws where the operation's own arguments are wrong. All ranks meet first: one that was refused in
// a single group would have made fewer than those that are not in that one.
ProcessGroup make_subgroups(const char* operation, std::span<const std::vector<int>> ranks,
                            const NewGroupOptions& options, const std::function<void()>& check) {
  const std::string backend = options.backend.empty() ? get_backend() : plain_name(options.backend);
  const auto check_all = [&] {
    check();
    require_disjoint(operation, ranks);
    if (options.timeout && !is_timeout(*options.timeout))
      throw DistError(std::string(operation) + ": " + no_timeout_at_all);
    (void)choose_modules(registry(), backend);
  };
  if (options.use_local_synchronization) {
    check_all();
  } else {
    world().agree({.operation = operation,
                   .ranks = get_process_group_ranks(),
                   .statement = "the groups " + in_words(ranks) + " and the backend " + backend,
                   .timeout = options.timeout},
                  check_all);
  }
  ProcessGroup own;
  for (const std::vector<int>& members : ranks) {
    ProcessGroup group = world().new_group(operation, members, options);
    if (group && group.rank() >= 0) own = group;
  }
  return own;
}

}  // namespace

void init_process_group(const InitOptions& options) { world().init(options); }
void destroy_process_group() { world().destroy_all(); }
void destroy_process_group(const ProcessGroup& group) {
  if (!group || group == default_group()) return world().destroy_all();
  world().destroy(group);
}

void abort_process_group(const std::string& reason, const ProcessGroup& group) {
  if (group) return group.abort(reason);
  (void)default_group();  // there must be one
  world().abort_all(reason);
}

bool is_available() { return true; }
bool is_initialized() { return world().is_initialized(); }
ProcessGroup default_group() { return GroupImpl::handle(world().default_group()); }
int get_rank(const ProcessGroup& group) { return (group ? group : default_group()).rank(); }
int get_world_size(const ProcessGroup& group) {
  const ProcessGroup asked = group ? group : default_group();
  return asked.rank() < 0 ? -1 : asked.size();
}
std::string get_backend(const ProcessGroup& group) { return (group ? group : default_group()).backend(); }
int get_pg_count() { return static_cast<int>(world().group_count()); }

std::string get_backend_config(const ProcessGroup& group) {
  return in_words(choose_modules(registry(), get_backend(group)));
}

std::string get_default_backend_for_device(std::string_view device) {
  const std::string_view kind = device.substr(0, device.find(':'));
  if (kind == "cpu") return "gloo";
  if (kind == "cuda") return "nccl";
  throw DistError("there is no default backend for the device '" + std::string(device) +
                  "'; known are cpu and cuda");
}

// The launcher's own, then those of Open MPI, MPICH and Intel MPI, MVAPICH, IBM's jsrun, HPE's PALS and Flux.
// Slurm's is the last: it may have started one of these.
constexpr std::array<std::string_view, 8> local_ranks = {env::local_rank,
                                                         "OMPI_COMM_WORLD_LOCAL_RANK",
                                                         "MPI_LOCALRANKID",
                                                         "MV2_COMM_WORLD_LOCAL_RANK",
                                                         "JSM_NAMESPACE_LOCAL_RANK",
                                                         "PALS_LOCAL_RANKID",
                                                         "FLUX_TASK_LOCAL_ID",
                                                         "SLURM_LOCALID"};

int get_node_local_rank(std::optional<int> fallback_rank) {
  std::optional<std::string> text;
  std::string_view variable;
  for (const std::string_view name : local_ranks) {
    if (text) break;
    variable = name;
    text = process_environment(name);
  }
  if (!text && fallback_rank) return *fallback_rank;
  if (!text) throw DistError("the environment variable LOCAL_RANK is not set; the launcher sets it");
  const std::optional<int> rank = store::parse_number<int>(*text);
  if (!rank || *rank < 0) {
    throw DistError("the environment variable " + std::string(variable) + ": '" + *text + "' is not a rank");
  }
  return *rank;
}

ProcessGroup new_group(const std::vector<int>& ranks, const NewGroupOptions& options) {
  return world().new_group("new_group", ranks, options);
}

ProcessGroup new_subgroups(int group_size, const NewGroupOptions& options) {
  const int size = get_world_size();
  const bool divides = group_size >= 1 && size % group_size == 0;
  std::vector<std::vector<int>> all(divides ? static_cast<std::size_t>(size / group_size) : 0);
  for (int rank = 0; divides && rank < size; ++rank) {
    all[static_cast<std::size_t>(rank / group_size)].push_back(rank);
  }
  return make_subgroups("new_subgroups", all, options, [&] {
    if (divides) return;
    throw DistError("new_subgroups: " + std::to_string(size) + " ranks cannot be divided into groups of " +
                    std::to_string(group_size));
  });
}

ProcessGroup new_subgroups_by_enumeration(std::span<const std::vector<int>> ranks,
                                          const NewGroupOptions& options) {
  return make_subgroups("new_subgroups_by_enumeration", ranks, options, [] {});
}

ProcessGroup split_group(const ProcessGroup& given, std::span<const std::vector<int>> parts,
                         const NewGroupOptions& options) {
  const ProcessGroup parent = given ? given : default_group();
  require_disjoint("split_group", parts);
  if (parent.rank() < 0)
    throw DistError("split_group: this process is not a member of group " + parent.name());
  std::vector<int> own;
  for (const std::vector<int>& part : parts) {
    std::vector<int> members;
    members.reserve(part.size());
    for (const int rank : part) members.push_back(get_global_rank(parent, rank));
    if (std::ranges::find(part, parent.rank()) != part.end()) own = std::move(members);
  }
  if (own.empty()) return {};
  NewGroupOptions among_themselves = options;
  among_themselves.use_local_synchronization = true;
  if (!among_themselves.timeout) among_themselves.timeout = parent.timeout();
  if (among_themselves.backend.empty()) among_themselves.backend = parent.backend();
  return world().new_group("split_group", own, among_themselves);
}

void register_backend(const BackendModule& module) {
  if (Result<void> added = registry().add(module); !added) throw DistError(added.error().message());
}

bool is_backend_available(std::string_view name) { return registry().find(name).ok(); }
bool is_gloo_available() { return is_backend_available("gloo"); }
bool is_nccl_available() { return is_backend_available("nccl"); }
bool is_mpi_available() { return is_backend_available("mpi"); }

bool is_dlaunch_launched() { return process_environment(env::version).has_value(); }
std::uint64_t fencing_token() {
  const std::optional<std::string> text = process_environment(env::fencing_token);
  if (!text) return 0;
  const std::optional<std::uint64_t> token = store::parse_number<std::uint64_t>(*text);
  if (!token || *token >> 53 != 0)
    throw DistError("the environment variable DLAUNCH_FENCING_TOKEN: '" + *text + "' is not a fencing token");
  return *token;
}
bool is_torchelastic_launched() { return process_environment(env::run_id).has_value(); }

}  // namespace v1
}  // namespace dlaunch
