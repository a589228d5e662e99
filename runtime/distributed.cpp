#include "dlaunch/distributed.h"

#include <algorithm>
#include <charconv>

#include "runtime/bootstrap.h"
#include "runtime/world.h"
#include "store/contract/worker_env.h"

namespace dlaunch {
inline namespace v1 {

void init_process_group(const InitOptions& options) { world().init(options); }
void destroy_process_group() { world().destroy_all(); }
void destroy_process_group(const ProcessGroup& group) {
  if (!group || group == default_group()) return world().destroy_all();
  world().destroy(group);
}

bool is_available() { return true; }
bool is_initialized() { return world().is_initialized(); }
ProcessGroup default_group() { return GroupImpl::handle(world().default_group()); }
int get_rank(const ProcessGroup& group) { return (group ? group : default_group()).rank(); }
int get_world_size(const ProcessGroup& group) { return (group ? group : default_group()).size(); }
std::string get_backend(const ProcessGroup& group) { return (group ? group : default_group()).backend(); }
int get_pg_count() { return static_cast<int>(world().group_count()); }

int get_node_local_rank() {
  const std::optional<std::string> text = process_environment(env::local_rank);
  if (!text) throw DistError("the environment variable LOCAL_RANK is not set; the launcher sets it");
  int rank = -1;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, rank);
  if (error != std::errc() || stop != end || rank < 0) {
    throw DistError("the environment variable LOCAL_RANK: '" + *text + "' is not a rank");
  }
  return rank;
}

ProcessGroup new_group(const std::vector<int>& ranks, const NewGroupOptions& options) {
  return world().new_group(ranks, options);
}

ProcessGroup new_subgroups(int group_size, const NewGroupOptions& options) {
  const int size = get_world_size();
  if (group_size < 1 || size % group_size != 0) {
    throw DistError("new_subgroups: " + std::to_string(size) + " ranks cannot be divided into groups of " +
                    std::to_string(group_size));
  }
  std::vector<std::vector<int>> all(static_cast<std::size_t>(size / group_size));
  for (int rank = 0; rank < size; ++rank) all[static_cast<std::size_t>(rank / group_size)].push_back(rank);
  return new_subgroups_by_enumeration(all, options);
}

ProcessGroup new_subgroups_by_enumeration(std::span<const std::vector<int>> ranks,
                                          const NewGroupOptions& options) {
  std::vector<int> seen;
  for (const std::vector<int>& members : ranks) seen.insert(seen.end(), members.begin(), members.end());
  std::ranges::sort(seen);
  if (const auto twice = std::ranges::adjacent_find(seen); twice != seen.end()) {
    throw DistError("new_subgroups_by_enumeration: rank " + std::to_string(*twice) + " is in two groups");
  }
  ProcessGroup own;
  for (const std::vector<int>& members : ranks) {
    ProcessGroup group = new_group(members, options);
    if (group && group.rank() >= 0) own = group;
  }
  return own;
}

void register_backend(const BackendModule& module) {
  if (Result<void> added = registry().add(module); !added) throw DistError(added.error().message());
}

bool is_backend_available(std::string_view name) { return registry().find(name).ok(); }
bool is_gloo_available() { return is_backend_available("gloo"); }
bool is_nccl_available() { return is_backend_available("nccl"); }
bool is_mpi_available() { return is_backend_available("mpi"); }

bool is_dlaunch_launched() { return process_environment(env::version).has_value(); }
bool is_torchelastic_launched() { return process_environment(env::run_id).has_value(); }

}  // namespace v1
}  // namespace dlaunch
