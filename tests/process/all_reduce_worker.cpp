// A worker for tests of the way its data take. Adds up COUNT floats TIMES times, checks the sums, and says
// "rank R of N: right".
//
//   all_reduce_worker COUNT [TIMES [INIT_METHOD RANK WORLD_SIZE]]

#include <dlaunch/distributed.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

namespace {

bool adds_up(std::size_t count) {
  std::vector<float> values(count, static_cast<float>(dlaunch::get_rank() + 1));
  dlaunch::all_reduce(dlaunch::Tensor::of(values));
  const int size = dlaunch::get_world_size();
  return values == std::vector<float>(count, static_cast<float>(size * (size + 1) / 2));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::size_t count = std::strtoul(argv[1], nullptr, 10);
  const int times = argc > 2 ? std::atoi(argv[2]) : 1;
  try {
    dlaunch::InitOptions options;
    if (argc > 5) {
      options.init_method = argv[3];
      options.rank = std::atoi(argv[4]);
      options.world_size = std::atoi(argv[5]);
    }
    dlaunch::init_process_group(options);
    bool right = true;
    for (int i = 0; i < times; ++i) right = adds_up(count) && right;
    std::printf("rank %d of %d: %s\n", dlaunch::get_rank(), dlaunch::get_world_size(),
                right ? "right" : "wrong");
    dlaunch::destroy_process_group();
    return right ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
