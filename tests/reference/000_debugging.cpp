// Document 000, "Debugging torch.distributed applications": its two programs, with gloo.
#include <dlaunch/debug.h>
#include <dlaunch/spawn.h>

#include "tests/reference/printed.h"
#include "tests/reference/processes.h"

using namespace reference;

namespace {

void require_in(const std::string& text, const std::string& part) {
  if (text.find(part) == std::string::npos) throw std::runtime_error("'" + part + "' is not in: " + text);
}

// Rank 1 does not call into monitored_barrier.
void monitored_barrier(int rank) {
  dist::init_process_group({.backend = "gloo", .rank = rank, .world_size = 2});
  const dist::ProcessGroup group_gloo = dist::new_group({}, {.backend = "gloo"});
  if (rank != 1) {
    const std::string error =
        raised([&] { dist::monitored_barrier(std::chrono::seconds(2), false, group_gloo); });
    require_in(error, "Rank 1 failed to pass monitoredBarrier in 2000 ms");
  }
  dist::barrier();
  dist::destroy_process_group();
}

// With wait_all_ranks all that are missing are named.
void wait_all_ranks(int rank) {
  dist::init_process_group({.backend = "gloo", .rank = rank, .world_size = 3});
  if (rank == 0) {
    require_in(raised([] { dist::monitored_barrier(std::chrono::milliseconds(500), true); }),
               "Ranks 1, 2 failed to pass monitoredBarrier in 500 ms");
  }
  dist::barrier();
  dist::destroy_process_group();
}

// TORCH_DISTRIBUTED_DEBUG=DETAIL: the shapes differ.
void detail(int rank) {
  setenv("TORCH_CPP_LOG_LEVEL", "INFO", 1);
  setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL", 1);
  setenv("TORCH_SHOW_CPP_STACKTRACES", "1", 1);
  dist::set_log_handler([](dist::LogLevel, const std::string&) {});
  require(dist::get_log_level() == dist::LogLevel::trace, "INFO and DETAIL log everything");
  dist::init_process_group({.backend = "gloo", .rank = rank, .world_size = 2});
  Floats tensor(rank == 0 ? 10 : 20);
  const std::string error = raised([&] { dist::all_reduce(dist::Tensor::of(tensor)); });
  require_in(error, "rank 0 calls all_reduce(float32[10] on cpu, sum)");
  require_in(error, "rank 1 calls all_reduce(float32[20] on cpu, sum)");
  require_in(error, "call stack:\n");
  dist::destroy_process_group();
}

}  // namespace

int main() {
  const Master master;
  dist::spawn(monitored_barrier, 2);
  dist::spawn(wait_all_ranks, 3);
  dist::spawn(detail, 2);
}
