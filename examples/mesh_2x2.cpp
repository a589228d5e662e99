// Two kinds of parallelism at once on a mesh of ranks: the columns of a matrix are divided along one
// dimension
// ("tp"), the batch along the other ("dp").
//
//   $ dlaunch --nproc-per-node=4 mesh_2x2
//
// Each rank multiplies its part of the batch with its part of the matrix. The ranks of a line in "tp" have
// the parts of one result; the ranks of a line in "dp" have the same part of the matrix, and average what
// they have learnt about it.
#include <dlaunch/device_mesh.h>
#include <dlaunch/distributed.h>

#include <cstdio>
#include <vector>

namespace {

using dlaunch::Tensor;

// x times the two columns of this rank, where column c of the matrix is full of c + 1.
std::vector<float> multiply(const std::vector<float>& x, int first_column) {
  float sum = 0;
  for (const float value : x) sum += value;
  return {sum * static_cast<float>(first_column + 1), sum * static_cast<float>(first_column + 2)};
}

}  // namespace

int main() {
  try {
    dlaunch::init_process_group();
    const dlaunch::DeviceMesh mesh = dlaunch::init_device_mesh("cpu", {2, 2}, {"dp", "tp"});
    const int dp = mesh.get_local_rank("dp");
    const int tp = mesh.get_local_rank("tp");

    const std::vector<float> x(3, static_cast<float>(dp + 1));  // this replica's part of the batch
    const std::vector<float> part = multiply(x, 2 * tp);
    std::vector<float> result(4);
    mesh.get_group("tp").all_gather_into_tensor(Tensor::of(result), Tensor::of(part));

    std::vector<float> gradient = part;
    mesh.get_group("dp").all_reduce(Tensor::of(gradient), dlaunch::ReduceOp::avg);

    std::printf("rank %d at (%d, %d): result %g %g %g %g, gradient %g %g\n", dlaunch::get_rank(), dp, tp,
                result[0], result[1], result[2], result[3], gradient[0], gradient[1]);
    dlaunch::destroy_process_group();
    return 0;
  } catch (const dlaunch::DistError& error) {
    std::fprintf(stderr, "mesh_2x2: %s\n", error.what());
    return 1;
  }
}
