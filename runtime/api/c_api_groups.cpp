// Groups and meshes in C.

#include <span>
#include <string>
#include <vector>

#include "dlaunch/device_mesh.h"
#include "runtime/api/c_api.h"
#include "runtime/group/separate_group.h"

struct dlaunch_mesh {
  dlaunch::DeviceMesh mesh;
};

namespace {

using namespace dlaunch::internal::c;
using dlaunch::DeviceMesh;
using dlaunch::ProcessGroup;

std::vector<int> numbers_of(const int* list, std::size_t count, const char* what) {
  if (count > 0) (void)required(list, what);
  return {list, list + count};
}

std::vector<std::string> names_of(const char* const* list, std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; list && i < count; ++i) names.emplace_back(&required(list[i], "a name"));
  return names;
}

// Lists that follow each other.
std::vector<std::vector<int>> lists_of(const int* ranks, const std::size_t* sizes, std::size_t count) {
  if (count > 0) (void)required(sizes, "the list of sizes");
  std::vector<std::vector<int>> lists;
  for (std::size_t i = 0; i < count; ++i) {
    lists.push_back(numbers_of(ranks, sizes[i], "the list of ranks"));
    if (sizes[i] > 0) ranks += sizes[i];
  }
  return lists;
}

dlaunch::NewGroupOptions options_of(const dlaunch_group_options* given) {
  dlaunch::NewGroupOptions options;
  if (!given) return options;
  options.timeout = timeout_of(given->timeout_ms);
  options.use_local_synchronization = given->use_local_synchronization != 0;
  if (given->backend) options.backend = given->backend;
  if (given->name) options.name = given->name;
  return options;
}

// What `make` returns goes to `place`; no group: NULL.
template <class Make>
int give_group(dlaunch_group** place, const Make& make) {
  return guarded([&] {
    (void)required(place, "the place for the group");
    ProcessGroup made = make();
    *place = made ? new dlaunch_group{std::move(made)} : nullptr;
  });
}

template <class Make>
int give_mesh(dlaunch_mesh** place, const Make& make) {
  return guarded([&] {
    (void)required(place, "the place for the mesh");
    *place = new dlaunch_mesh{make()};
  });
}

const DeviceMesh& mesh_of(const dlaunch_mesh* mesh) { return required(mesh, "the mesh").mesh; }

}  // namespace

int dlaunch_get_rank(const dlaunch_group* group) {
  return answer(-1, [&] { return group_of(group).rank(); });
}
int dlaunch_get_world_size(const dlaunch_group* group) {
  return answer(-1, [&] { return group_of(group).size(); });
}
int dlaunch_get_group_rank(const dlaunch_group* group, int global_rank) {
  return answer(-1, [&] { return dlaunch::get_group_rank(group_of(group), global_rank); });
}
int dlaunch_get_global_rank(const dlaunch_group* group, int group_rank) {
  return answer(-1, [&] { return dlaunch::get_global_rank(group_of(group), group_rank); });
}
int dlaunch_get_node_local_rank() {
  return answer(-1, [] { return dlaunch::get_node_local_rank(); });
}
const char* dlaunch_get_backend(const dlaunch_group* group) {
  return text_answer([&] { return group_of(group).backend(); });
}

const char* dlaunch_get_backend_config(const dlaunch_group* group) {
  return text_answer([&] { return dlaunch::get_backend_config(group_of(group)); });
}
int dlaunch_get_pg_count() {
  return answer(0, [] { return dlaunch::get_pg_count(); });
}
int dlaunch_get_process_group_ranks(const dlaunch_group* group, int* ranks, size_t count) {
  return guarded([&] {
    const std::vector<int> members = dlaunch::get_process_group_ranks(group_of(group));
    (void)required(ranks, "the list of ranks");
    if (count != members.size()) {
      throw dlaunch::DistError("the group has " + std::to_string(members.size()) + " ranks, not " +
                               std::to_string(count));
    }
    std::copy(members.begin(), members.end(), ranks);
  });
}

int dlaunch_new_group(const int* ranks, size_t count, int64_t timeout_ms, dlaunch_group** group) {
  const dlaunch_group_options options = {nullptr, timeout_ms, 0, nullptr};
  return dlaunch_new_group_with(ranks, count, &options, group);
}
int dlaunch_new_group_with(const int* ranks, size_t count, const dlaunch_group_options* options,
                           dlaunch_group** group) {
  return give_group(group, [&] {
    return dlaunch::new_group(numbers_of(ranks, count, "the list of ranks"), options_of(options));
  });
}
int dlaunch_new_subgroups(int group_size, const dlaunch_group_options* options, dlaunch_group** group) {
  return give_group(group, [&] { return dlaunch::new_subgroups(group_size, options_of(options)); });
}
int dlaunch_new_subgroups_by_enumeration(const int* ranks, const size_t* sizes, size_t count,
                                         const dlaunch_group_options* options, dlaunch_group** group) {
  return give_group(group, [&] {
    return dlaunch::new_subgroups_by_enumeration(lists_of(ranks, sizes, count), options_of(options));
  });
}
int dlaunch_split_group(const dlaunch_group* parent, const int* ranks, const size_t* sizes, size_t count,
                        const dlaunch_group_options* options, dlaunch_group** group) {
  return give_group(group, [&] {
    return dlaunch::split_group(group_of(parent), lists_of(ranks, sizes, count), options_of(options));
  });
}
void dlaunch_group_free(dlaunch_group* group) { delete group; }
int dlaunch_destroy_group(dlaunch_group* group) {
  return guarded([&] {
    const ProcessGroup& ended = required(group, "the group").group;
    if (!dlaunch::internal::destroy_separate_group(ended)) dlaunch::destroy_process_group(ended);
  });
}
int dlaunch_set_timeout(const dlaunch_group* group, int64_t timeout_ms) {
  return guarded([&] { group_of(group).set_timeout(std::chrono::milliseconds(timeout_ms)); });
}
int dlaunch_abort(const dlaunch_group* group, const char* reason) {
  return guarded([&] { group_of(group).abort(&required(reason, "the reason")); });
}

int dlaunch_init_device_mesh(const char* device_type, const int* shape, size_t dims, const char* const* names,
                             dlaunch_mesh** mesh) {
  return give_mesh(mesh, [&] {
    return dlaunch::init_device_mesh(&required(device_type, "the device type"),
                                     numbers_of(shape, dims, "the shape"), names_of(names, dims));
  });
}
int dlaunch_device_mesh(const char* device_type, const int* ranks, const int* shape, size_t dims,
                        const char* const* names, dlaunch_mesh** mesh) {
  return give_mesh(mesh, [&] {
    const std::vector<int> extents = numbers_of(shape, dims, "the shape");
    std::size_t places = 1;
    for (const int extent : extents) {
      if (extent < 1) throw dlaunch::DistError("a device mesh: an extent is below 1");
      places *= static_cast<std::size_t>(extent);
      if (places > static_cast<std::size_t>(dlaunch::get_world_size())) {
        throw dlaunch::DistError("a device mesh has more places than there are ranks");
      }
    }
    return DeviceMesh(&required(device_type, "the device type"),
                      numbers_of(ranks, places, "the list of ranks"), extents, names_of(names, dims));
  });
}
void dlaunch_mesh_free(dlaunch_mesh* mesh) { delete mesh; }
int dlaunch_mesh_ndim(const dlaunch_mesh* mesh) {
  return answer(-1, [&] { return mesh_of(mesh).ndim(); });
}
int dlaunch_mesh_size(const dlaunch_mesh* mesh, int dim) {
  return answer(-1, [&] { return mesh_of(mesh).size(dim); });
}
int dlaunch_mesh_dim(const dlaunch_mesh* mesh, const char* name) {
  return answer(-1, [&] {
    const std::vector<std::string>& names = mesh_of(mesh).names();
    const auto found = std::find(names.begin(), names.end(), &required(name, "the name"));
    return found == names.end() ? -1 : static_cast<int>(found - names.begin());
  });
}
int dlaunch_mesh_get_local_rank(const dlaunch_mesh* mesh, int dim) {
  return answer(-1, [&] { return mesh_of(mesh).get_local_rank(dim); });
}
int dlaunch_mesh_get_group(const dlaunch_mesh* mesh, int dim, dlaunch_group** group) {
  return give_group(group, [&] { return mesh_of(mesh).get_group(dim); });
}
int dlaunch_mesh_slice(const dlaunch_mesh* mesh, const char* const* names, size_t count,
                       dlaunch_mesh** part) {
  return give_mesh(part, [&] { return mesh_of(mesh).slice(names_of(names, count)); });
}
int dlaunch_mesh_flatten(const dlaunch_mesh* mesh, const char* name, dlaunch_mesh** flat) {
  return give_mesh(flat, [&] { return mesh_of(mesh).flatten(name ? name : ""); });
}
