// Documents 000, 001, 003 and 004: the three ways to initialise, with four processes that the program starts
// itself; and mp.spawn with rank and world_size in the call.
#include <dlaunch/spawn.h>

#include <filesystem>

#include "tests/reference/printed.h"
#include "tests/reference/processes.h"

using namespace reference;

namespace {

void add_up() {
  Ints rank = {dist::get_rank()};
  dist::all_reduce(dist::Tensor::of(rank));
  expect(shown(rank), "tensor([6])");
  dist::destroy_process_group();
}

// init_method='tcp://10.1.1.20:23456', rank=args.rank, world_size=4
int by_tcp() {
  const Master master;
  const std::string url = "tcp://127.0.0.1:" + std::to_string(master.port());
  int code = run_processes(4, [&](int rank) {
    dist::init_process_group({.backend = "gloo", .init_method = url, .rank = rank, .world_size = 4});
    add_up();
  });
  // "encode all required parameters in the URL and omit them"
  code |= run_processes(4, [&](int rank) {
    dist::init_process_group(
        {.backend = "gloo", .init_method = url + "?rank=" + std::to_string(rank) + "&world_size=4"});
    add_up();
  });
  return code;
}

// init_method='file:///mnt/nfs/sharedfile', world_size=4, rank=args.rank
int by_file() {
  std::string folder = std::filesystem::temp_directory_path() / "dlaunch_reference.XXXXXX";
  if (!mkdtemp(folder.data())) return 1;
  const int code = run_processes(4, [&](int rank) {
    dist::init_process_group({.backend = "gloo",
                              .init_method = "file://" + folder + "/sharedfile",
                              .rank = rank,
                              .world_size = 4});
    add_up();
  });
  std::filesystem::remove_all(folder);
  return code;
}

// os.environ['MASTER_ADDR'], os.environ['MASTER_PORT'], then rank=args.rank, world_size=4; or all four in the
// environment.
int by_environment() {
  const Master master;
  int code = run_processes(4, [](int rank) {
    dist::init_process_group({.backend = "gloo", .rank = rank, .world_size = 4});
    add_up();
  });
  code |= run_processes(4, [](int rank) {
    setenv("RANK", std::to_string(rank).c_str(), 1);
    setenv("WORLD_SIZE", "4", 1);
    dist::init_process_group({.backend = "GLOO", .init_method = "env://"});
    add_up();
  });
  return code;
}

// mp.spawn(worker, nprocs=4, args=())
void by_spawn() {
  const Master master;
  dist::spawn(
      [](int rank) {
        dist::init_process_group({.backend = "gloo", .rank = rank, .world_size = 4});
        add_up();
      },
      4);
}

}  // namespace

int main() {
  for (const char* const name : {"RANK", "WORLD_SIZE"}) unsetenv(name);
  int code = by_tcp();
  code |= by_file();
  code |= by_environment();
  by_spawn();
  return code;
}
