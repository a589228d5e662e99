// Document 000, device meshes on eight ranks: the shapes of its examples, on the CPU.
#include <dlaunch/device_mesh.h>

#include "tests/reference/printed.h"

using namespace reference;

namespace {

std::int64_t sum_over(const dist::ProcessGroup& group) {
  Ints rank = {dist::get_rank()};
  group.all_reduce(dist::Tensor::of(rank));
  return rank[0];
}

}  // namespace

// Without init_process_group: init_device_mesh makes the default group.
int main() {
  try {
    const auto mesh_1d = dist::init_device_mesh("cpu", {8});
    const auto mesh_2d = dist::init_device_mesh("cpu", {2, 4}, {"dp", "tp"});
    const int rank = dist::get_rank();
    require(sum_over(mesh_1d.get_group(0)) == 28, "all ranks");
    require(sum_over(mesh_2d.get_group("tp")) == (rank < 4 ? 6 : 22), "a row");

    // "a reduction over the first dimension of mesh will reduce across the columns (0, 4), .. and (3, 7), a
    // reduction over the second dimension of mesh reduces across the rows (0, 1, 2, 3) and (4, 5, 6, 7)".
    const dist::DeviceMesh mesh("cpu", {0, 1, 2, 3, 4, 5, 6, 7}, {2, 4});
    require(dist::get_process_group_ranks(mesh.get_group(0)) == std::vector{rank % 4, rank % 4 + 4},
            "a column");
    require(sum_over(mesh.get_group(0)) == rank % 4 * 2 + 4, "the sum of a column");
    require(sum_over(mesh.get_group(1)) == (rank < 4 ? 6 : 22), "the sum of a row");

    // "DeviceMesh can be used as a context manager."
    const dist::MeshScope with_mesh(mesh);
    require(dist::get_current_mesh().shape() == std::vector{2, 4}, "the current mesh");
    const dist::DeviceMesh layout("cpu", {7, 6, 5, 4}, {2, 2}, {}, {.init_process_groups = false});
    require(layout.size() == 4, "without groups");
    dist::destroy_process_group();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %s: %s\n", std::getenv("RANK"), e.what());
    return 1;
  }
  return 0;
}
