#include "dlaunch/device_mesh.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "dlaunch/distributed.h"
#include "dlaunch/error.h"
#include "runtime/base/comma_separated.h"
#include "runtime/group/world.h"
#include "runtime/rendezvous/key_value_store.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {

struct DeviceMesh::State {
  std::string device_type;
  std::vector<int> ranks;  // row by row
  std::vector<int> shape;
  std::vector<std::string> names;
  int rank = -1;
  std::optional<std::vector<int>> coordinate;
  bool has_groups = true;
  std::vector<ProcessGroup> groups;  // by dimension; empty if this rank is not in the mesh, or without groups
};

namespace {

template <class T>
std::string in_words(const std::vector<T>& things) {
  return "[" + comma_separated(things) + "]";
}

// The distance of neighbours in each dimension, in places.
std::vector<int> strides(const std::vector<int>& shape) {
  std::vector<int> result(shape.size(), 1);
  for (std::size_t dim = shape.size(); dim-- > 1;) result[dim - 1] = result[dim] * shape[dim];
  return result;
}

void check_device(const std::string& device_type, const ProcessGroup& group) {
  if (device_type != "cpu" && device_type != "cuda") {
    throw DistError("a device mesh of '" + device_type + "': unknown device; known are cpu and cuda");
  }
  const std::string config = get_backend_config(group);
  if (("," + config).find("," + device_type + ":") == std::string::npos) {
    throw DistError("a device mesh of " + device_type + ": the group's backend works on " + config + " only");
  }
}

void check(const std::string& device_type, const std::vector<int>& ranks, const std::vector<int>& shape,
           const std::vector<std::string>& names) {
  check_device(device_type, {});
  const auto refuse = [&](const std::string& why) {
    throw DistError("a device mesh of shape " + in_words(shape) + ": " + why);
  };
  if (shape.empty()) refuse("it needs at least one dimension");
  std::int64_t places = 1;
  for (const int extent : shape) {
    if (extent < 1) refuse("an extent is below 1");
    places *= extent;
    if (places > static_cast<std::int64_t>(ranks.size())) break;
  }
  if (places != static_cast<std::int64_t>(ranks.size())) {
    refuse("it does not have as many places as there are ranks (" + std::to_string(ranks.size()) + ")");
  }
  std::vector<int> sorted = ranks;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) refuse("a rank occurs twice");
  const int world_size = get_world_size();
  if (sorted.front() < 0 || sorted.back() >= world_size) {
    refuse("its ranks are not all in range for a world of " + std::to_string(world_size) + " ranks");
  }
  if (names.empty()) return;
  if (names.size() != shape.size()) refuse("it has " + std::to_string(names.size()) + " names");
  std::vector<std::string> sorted_names = names;
  std::ranges::sort(sorted_names);
  if (std::ranges::adjacent_find(sorted_names) != sorted_names.end()) refuse("a name occurs twice");
}

// A program may begin with a mesh.
void require_default_group(const std::string& device_type) {
  if (is_initialized()) return;
  InitOptions options;
  if (device_type == "cuda") options.backend = get_default_backend_for_device(device_type);
  init_process_group(options);
}

}  // namespace

DeviceMesh::DeviceMesh(std::string device_type, std::vector<int> ranks, std::vector<int> shape,
                       std::vector<std::string> names, const DeviceMeshOptions& options)
    : state_(make("DeviceMesh", std::move(device_type), std::move(ranks), std::move(shape), std::move(names),
                  options.init_process_groups)) {}

std::shared_ptr<const DeviceMesh::State> DeviceMesh::make(const std::string& call, std::string device_type,
                                                          std::vector<int> ranks, std::vector<int> shape,
                                                          std::vector<std::string> names, bool has_groups) {
  require_default_group(device_type);
  const auto check_arguments = [&] { check(device_type, ranks, shape, names); };
  if (has_groups) {
    world().agree({.operation = call,
                   .ranks = ranks,
                   .statement = "the device " + device_type + ", the shape " + in_words(shape) +
                                ", the names " + in_words(names) + " and the ranks " + in_words(ranks)},
                  check_arguments);
  } else {
    check_arguments();
  }
  return lay_out(call, std::move(device_type), std::move(ranks), std::move(shape), std::move(names),
                 has_groups);
}

std::shared_ptr<const DeviceMesh::State> DeviceMesh::lay_out(const std::string& call, std::string device_type,
                                                             std::vector<int> ranks, std::vector<int> shape,
                                                             std::vector<std::string> names,
                                                             bool has_groups) {
  const auto state = std::make_shared<State>();
  state->device_type = std::move(device_type);
  state->ranks = std::move(ranks);
  state->shape = std::move(shape);
  state->names = std::move(names);
  state->has_groups = has_groups;
  state->rank = dlaunch::get_rank();
  const auto own = std::ranges::find(state->ranks, state->rank);
  if (own != state->ranks.end()) {
    const int place = static_cast<int>(own - state->ranks.begin());
    const std::vector<int> step = strides(state->shape);
    std::vector<int> coordinate;
    for (std::size_t dim = 0; dim < state->shape.size(); ++dim) {
      coordinate.push_back(place / step[dim] % state->shape[dim]);
    }
    // In the same order on all ranks of a line: they meet without the other lines.
    for (std::size_t dim = 0; has_groups && dim < state->shape.size(); ++dim) {
      std::vector<int> line;
      line.reserve(static_cast<std::size_t>(state->shape[dim]));
      for (int i = 0; i < state->shape[dim]; ++i) {
        const int at = place + (i - coordinate[dim]) * step[dim];
        line.push_back(state->ranks[static_cast<std::size_t>(at)]);
      }
      NewGroupOptions options;
      options.use_local_synchronization = true;
      options.name = "mesh " + (state->names.empty() ? std::to_string(dim) : state->names[dim]);
      state->groups.push_back(world().new_group(call, line, options));
    }
    state->coordinate = std::move(coordinate);
  }
  return state;
}

DeviceMesh DeviceMesh::from_group(const ProcessGroup& group, std::string device_type, std::string name) {
  check_device(device_type, group);
  const auto state = std::make_shared<State>();
  state->device_type = std::move(device_type);
  state->ranks = group.ranks();
  state->shape = {group.size()};
  if (!name.empty()) state->names = {std::move(name)};
  state->rank = dlaunch::get_rank();
  if (group.rank() >= 0) {
    state->coordinate = {group.rank()};
    state->groups = {group};
  }
  return DeviceMesh(std::shared_ptr<const State>(state));
}

const std::string& DeviceMesh::device_type() const { return state_->device_type; }
const std::vector<int>& DeviceMesh::shape() const { return state_->shape; }
const std::vector<int>& DeviceMesh::ranks() const { return state_->ranks; }
const std::vector<std::string>& DeviceMesh::names() const { return state_->names; }
int DeviceMesh::ndim() const { return static_cast<int>(state_->shape.size()); }
int DeviceMesh::size() const { return static_cast<int>(state_->ranks.size()); }
int DeviceMesh::get_rank() const { return state_->rank; }
std::optional<std::vector<int>> DeviceMesh::get_coordinate() const { return state_->coordinate; }

int DeviceMesh::size(int dim) const {
  if (dim < 0 || dim >= ndim()) {
    throw DistError("a device mesh of shape " + in_words(state_->shape) + " has no dimension " +
                    std::to_string(dim));
  }
  return state_->shape[static_cast<std::size_t>(dim)];
}

int DeviceMesh::number_of(std::string_view dim) const {
  const auto found = std::ranges::find(state_->names, dim);
  if (found == state_->names.end()) {
    throw DistError("a device mesh with the dimensions " + in_words(state_->names) + " has none named '" +
                    std::string(dim) + "'");
  }
  return static_cast<int>(found - state_->names.begin());
}

const std::vector<int>& DeviceMesh::required_coordinate() const {
  if (!state_->coordinate) {
    throw DistError("rank " + std::to_string(state_->rank) + " is not in the device mesh of the ranks " +
                    in_words(state_->ranks));
  }
  return *state_->coordinate;
}

void DeviceMesh::require_groups() const {
  (void)required_coordinate();
  if (!state_->has_groups) {
    throw DistError("the device mesh of shape " + in_words(state_->shape) +
                    " was made without process groups (init_process_groups = false)");
  }
}

int DeviceMesh::get_local_rank(int dim) const {
  (void)size(dim);
  return required_coordinate()[static_cast<std::size_t>(dim)];
}
int DeviceMesh::get_local_rank(std::string_view dim) const { return get_local_rank(number_of(dim)); }

ProcessGroup DeviceMesh::get_group(int dim) const {
  (void)size(dim);
  require_groups();
  return state_->groups[static_cast<std::size_t>(dim)];
}
ProcessGroup DeviceMesh::get_group(std::string_view dim) const { return get_group(number_of(dim)); }
std::vector<ProcessGroup> DeviceMesh::get_all_groups() const {
  require_groups();
  return state_->groups;
}

DeviceMesh DeviceMesh::slice(std::span<const std::string> dims) const {
  const std::vector<int>& coordinate = required_coordinate();
  const std::vector<int> step = strides(state_->shape);
  const auto part = std::make_shared<State>();
  part->device_type = state_->device_type;
  part->rank = state_->rank;
  part->has_groups = state_->has_groups;
  part->coordinate.emplace();
  int origin = 0;  // the place whose numbers are this rank's, but 0 in the dimensions of the slice
  for (std::size_t dim = 0; dim < step.size(); ++dim) origin += coordinate[dim] * step[dim];
  std::vector<int> places;
  for (const std::string& name : dims) {
    const std::size_t dim = static_cast<std::size_t>(number_of(name));
    if (std::ranges::find(part->names, name) != part->names.end()) {
      throw DistError("a slice of a device mesh names the dimension '" + name + "' twice");
    }
    part->names.push_back(name);
    part->shape.push_back(state_->shape[dim]);
    if (state_->has_groups) part->groups.push_back(state_->groups[dim]);
    part->coordinate->push_back(coordinate[dim]);
    origin -= coordinate[dim] * step[dim];
  }
  if (part->names.empty()) throw DistError("a slice of a device mesh needs at least one dimension");
  places.push_back(origin);
  for (std::size_t i = 0; i < part->shape.size(); ++i) {
    const int distance = step[static_cast<std::size_t>(number_of(part->names[i]))];
    std::vector<int> wider;
    for (const int place : places) {
      for (int k = 0; k < part->shape[i]; ++k) wider.push_back(place + k * distance);
    }
    places = std::move(wider);
  }
  for (const int place : places) part->ranks.push_back(state_->ranks[static_cast<std::size_t>(place)]);
  return DeviceMesh(std::shared_ptr<const State>(part));
}

DeviceMesh DeviceMesh::operator[](std::string_view dim) const {
  const std::string name(dim);
  return slice({&name, 1});
}

DeviceMesh DeviceMesh::flatten(const std::string& name) const {
  std::string joined = name;
  for (std::size_t i = 0; name.empty() && i < state_->names.size(); ++i) {
    joined += (i > 0 ? "_" : "") + state_->names[i];
  }
  // Other meshes may be flattened at the same time: only the ranks of this one meet, to make its group.
  return DeviceMesh(lay_out("DeviceMesh::flatten", state_->device_type, state_->ranks, {size()},
                            joined.empty() ? std::vector<std::string>() : std::vector<std::string>{joined},
                            state_->has_groups));
}

namespace {
// The meshes of this thread's scopes, the innermost last.
std::vector<DeviceMesh>& scopes() {
  thread_local std::vector<DeviceMesh> meshes;
  return meshes;
}
}  // namespace

MeshScope::MeshScope(DeviceMesh mesh) { scopes().push_back(std::move(mesh)); }
MeshScope::~MeshScope() { scopes().pop_back(); }

DeviceMesh get_current_mesh() {
  if (scopes().empty()) {
    throw DistError("get_current_mesh: no device mesh is current in this thread; a MeshScope makes one so");
  }
  return scopes().back();
}

DeviceMesh init_device_mesh(const std::string& device_type, const std::vector<int>& shape,
                            const std::vector<std::string>& names) {
  require_default_group(device_type);
  std::vector<int> ranks(static_cast<std::size_t>(get_world_size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return DeviceMesh(DeviceMesh::make("init_device_mesh", device_type, std::move(ranks), shape, names, true));
}

}  // namespace v1
}  // namespace dlaunch
