// A program on the backend of solo.cpp, without a launcher: one rank, in a store of its own.
#include <dlaunch/distributed.h>

#include <cstdio>
#include <vector>

int main() {
  try {
    dlaunch::InitOptions options;
    options.backend = "solo";
    options.rank = 0;
    options.world_size = 1;
    options.store = dlaunch::make_hash_store();
    dlaunch::init_process_group(options);
    std::vector<int> numbers = {1, 2, 3};
    std::vector<int> gathered(3);
    dlaunch::all_reduce(dlaunch::Tensor::of(numbers));
    dlaunch::all_gather_into_tensor(dlaunch::Tensor::of(gathered), dlaunch::Tensor::of(numbers));
    std::printf("%s: %d %d %d\n", dlaunch::get_backend().c_str(), gathered[0], gathered[1], gathered[2]);
    dlaunch::destroy_process_group();
    return 0;
  } catch (const dlaunch::DistError& error) {
    std::fprintf(stderr, "try_solo: %s\n", error.what());
    return 1;
  }
}
