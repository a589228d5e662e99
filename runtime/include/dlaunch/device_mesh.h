// The ranks of a job as an array of several dimensions, with a group for each of its lines.
//
//   // 8 ranks: two replicas of a model that is cut in four.
//   auto mesh = dlaunch::init_device_mesh("cpu", {2, 4}, {"dp", "tp"});
//   mesh.get_group("tp");        // the 4 ranks of this rank's replica
//   mesh.get_local_rank("dp");   // which replica this is
//   mesh["dp"];                  // the one-dimensional mesh of the ranks with this rank's place in "tp"
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlaunch/export.h"
#include "dlaunch/process_group.h"

namespace dlaunch {
inline namespace v1 {

struct DeviceMeshOptions {
  // false: without groups, and without communication; only the layout is computed.
  bool init_process_groups = true;
};

// If there is no default group, the first constructor and init_device_mesh() make it: as init_process_group()
// does with env:// and the device's backend.
//
// A handle; copies and slices share the groups of the same mesh. A dimension is given by its number or name;
// an unknown one throws DistError. Threads: as for the queries of ProcessGroup.
class DLAUNCH_EXPORT DeviceMesh {
 public:
  // `ranks`: of the default group, row by row, one for each place of `shape`, each once. `names`: none, or
  // one for each dimension, all different. Every rank of the default group makes the same call; a rank that
  // is not in the mesh does not wait. The ranks in the mesh compare their calls, and then the members of each
  // line make its group. Throws DistError if the device type is unknown (not "cpu" or "cuda") or not the
  // default group's, or if shape, ranks and names do not match; DistNetworkError, on all ranks in the mesh,
  // if one of them has such an error, makes another call, is missing or dies.
  DeviceMesh(std::string device_type, std::vector<int> ranks, std::vector<int> shape,
             std::vector<std::string> names = {}, const DeviceMeshOptions& options = {});

  // The one-dimensional mesh of an existing group: its ranks, in their order. No communication.
  static DeviceMesh from_group(const ProcessGroup& group, std::string device_type, std::string name = {});

  [[nodiscard]] const std::string& device_type() const;
  [[nodiscard]] const std::vector<int>& shape() const;
  [[nodiscard]] const std::vector<int>& ranks() const;  // row by row
  [[nodiscard]] const std::vector<std::string>& names() const;
  [[nodiscard]] int ndim() const;
  [[nodiscard]] int size() const;  // places in all
  [[nodiscard]] int size(int dim) const;
  [[nodiscard]] int get_rank() const;  // this process's, in the default group

  // This rank's coordinate, one number for each dimension; none if it is not in the mesh.
  [[nodiscard]] std::optional<std::vector<int>> get_coordinate() const;
  [[nodiscard]] int get_local_rank(int dim) const;
  [[nodiscard]] int get_local_rank(std::string_view dim) const;

  // The ranks that differ from this one in that dimension only. DistError if this rank is not in the mesh, or
  // the mesh was made without groups.
  [[nodiscard]] ProcessGroup get_group(int dim) const;
  [[nodiscard]] ProcessGroup get_group(std::string_view dim) const;
  [[nodiscard]] std::vector<ProcessGroup> get_all_groups() const;  // by dimension

  // The mesh of these dimensions, in this order, through this rank's coordinate. No communication.
  [[nodiscard]] DeviceMesh slice(std::span<const std::string> dims) const;
  [[nodiscard]] DeviceMesh operator[](std::string_view dim) const;

  // All ranks of the mesh in one dimension, with a group of their own: called by every rank in the mesh.
  // `name` empty: the names joined by "_".
  [[nodiscard]] DeviceMesh flatten(const std::string& name = {}) const;

 private:
  struct State;
  explicit DeviceMesh(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  // The constructor's work; `call`: for messages.
  static std::shared_ptr<const State> make(const std::string& call, std::string device_type,
                                           std::vector<int> ranks, std::vector<int> shape,
                                           std::vector<std::string> names, bool has_groups);
  // Without the comparison.
  static std::shared_ptr<const State> lay_out(const std::string& call, std::string device_type,
                                              std::vector<int> ranks, std::vector<int> shape,
                                              std::vector<std::string> names, bool has_groups);
  friend DLAUNCH_EXPORT DeviceMesh init_device_mesh(const std::string& device_type,
                                                    const std::vector<int>& shape,
                                                    const std::vector<std::string>& names);
  [[nodiscard]] int number_of(std::string_view dim) const;
  [[nodiscard]] const std::vector<int>& required_coordinate() const;
  void require_groups() const;

  std::shared_ptr<const State> state_;
};

// Makes a mesh the current one of this thread as long as it lives: what `with mesh:` does in Python. Scopes
// nest, as blocks do.
//
//   const dlaunch::MeshScope scope(mesh);
//   dlaunch::get_current_mesh();  // mesh
class DLAUNCH_EXPORT MeshScope {
 public:
  explicit MeshScope(DeviceMesh mesh);
  ~MeshScope();
  MeshScope(const MeshScope&) = delete;
  MeshScope& operator=(const MeshScope&) = delete;
};

// The mesh of this thread's innermost MeshScope. DistError if there is none.
DLAUNCH_EXPORT DeviceMesh get_current_mesh();

// The mesh of all ranks of the default group in their order. The shape's product is the world size. If one
// rank's arguments are wrong or differ, all ranks throw at once.
DLAUNCH_EXPORT DeviceMesh init_device_mesh(const std::string& device_type, const std::vector<int>& shape,
                                           const std::vector<std::string>& names = {});

}  // namespace v1
}  // namespace dlaunch
