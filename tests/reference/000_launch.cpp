// Documents 000 and 003, "Launch utility" and the profiler: a program that the launcher starts twice, which
// takes its local rank from --local-rank, or, with --use-env=True, from LOCAL_RANK.
//
//   dlaunch --pass-local-rank --nproc-per-node=2 PROGRAM --arg1 argument
//   dlaunch --use-env=True --nproc-per-node=2 PROGRAM --arg1 environment
#include <dlaunch/profiling.h>

#include <atomic>

#include "tests/reference/printed.h"

using namespace reference;

int main(int argc, char** argv) {
  // parser.add_argument("--local-rank", type=int)
  int local_rank = -1;
  std::vector<std::string> others;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string name = "--local-rank=";
    if (argument.starts_with(name)) {
      local_rank = std::stoi(argument.substr(name.size()));
    } else {
      others.push_back(argument);
    }
  }
  return run([&](int rank, int size) {
    require(others.size() == 2 && others[0] == "--arg1", "the arguments of the training script");
    if (others[1] == "environment") {
      require(local_rank == -1, "the launcher does not pass --local-rank when this flag is given");
      local_rank = std::atoi(std::getenv("LOCAL_RANK"));  // os.environ['LOCAL_RANK']
    }
    require(local_rank == rank && size == 2, "one node: the local rank is the rank");
    require(dist::is_torchelastic_launched(), "TORCHELASTIC_RUN_ID is set");

    // with torch.profiler(): the collective is in the trace.
    std::atomic<int> all_reduces = 0;
    dist::set_profiling_callback([&](const dist::ProfilingEvent& event) {
      if (event.name == "all_reduce") ++all_reduces;
    });
    Floats tensor(20 * 10);
    dist::all_reduce(dist::Tensor::of(tensor));
    dist::set_profiling_callback({});
    require(all_reduces == 2, "the begin and the end of the all_reduce");
  });
}
