// The first distributed program: every worker says who it is and what all ranks add up to.
//
//   $ dlaunch --nproc-per-node=4 rank_sum
//   rank 2 of 4: sum of ranks = 6
//   ...
#include <dlaunch/distributed.h>

#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
  try {
    dlaunch::init_process_group();  // finds the others through the environment that dlaunch set up

    std::vector<std::int64_t> sum{dlaunch::get_rank()};
    dlaunch::all_reduce(dlaunch::Tensor::of(sum));  // now every worker's value is the sum of all

    std::printf("rank %d of %d: sum of ranks = %lld\n", dlaunch::get_rank(), dlaunch::get_world_size(),
                static_cast<long long>(sum[0]));
    dlaunch::destroy_process_group();
    return 0;
  } catch (const dlaunch::DistError& error) {
    std::fprintf(stderr, "rank_sum: %s\n", error.what());
    return 1;
  }
}
