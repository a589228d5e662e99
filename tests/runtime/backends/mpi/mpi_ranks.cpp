// Ranks that mpirun starts: they name neither a rank nor a store.
//
//   mpi_ranks worlds               two worlds, one after another
//   mpi_ranks lengths              a receive that is shorter than its message
//   mpi_ranks counts               a broadcast that is longer at its receiver; also counts_in_pieces
//   mpi_ranks long                 reductions of all lengths at which the algorithm changes, uneven blocks
//   mpi_ranks deadlock             each of two ranks waits for a message of the other one
//   mpi_ranks dead                 rank 1 is killed, and the others wait for it
//   mpi_ranks lost DIRECTORY       rank 1 becomes another program, which its launcher cannot know; the errors
//                                  of the others are in error.RANK

#include <dlaunch/distributed.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

void worlds() {
  for (int world = 0; world < 2; ++world) {
    dlaunch::init_process_group({.backend = "mpi"});
    std::vector<float> sum(100, static_cast<float>(dlaunch::get_rank() + 1));
    dlaunch::all_reduce(dlaunch::Tensor::of(sum));
    std::printf("world %d: rank %d of %d, local rank %d, sum %g\n", world, dlaunch::get_rank(),
                dlaunch::get_world_size(), dlaunch::get_node_local_rank(), static_cast<double>(sum.back()));
    dlaunch::destroy_process_group();
  }
}

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what + " is wrong at rank " + std::to_string(dlaunch::get_rank()));
}

using Values = std::vector<std::int64_t>;

// What a rank has: `factor` times a pattern.
Values values_of(std::size_t count, std::int64_t factor) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = factor * static_cast<std::int64_t>(i % 1009 + 1);
  return values;
}

void reduce_long(std::size_t count) {
  const int rank = dlaunch::get_rank();
  const int size = dlaunch::get_world_size();
  const std::int64_t sum = size * (size + 1) / 2;
  Values all = values_of(count, rank + 1);
  dlaunch::all_reduce(dlaunch::Tensor::of(all));
  require(all == values_of(count, sum), "all_reduce");
  for (int root = 0; root < size; ++root) {
    Values own = values_of(count, rank + 1);
    dlaunch::reduce(dlaunch::Tensor::of(own), root);
    require(own == values_of(count, rank == root ? sum : rank + 1), "reduce");
    own = values_of(count, rank == root ? 5 : 0);
    dlaunch::broadcast(dlaunch::Tensor::of(own), root);
    require(own == values_of(count, 5), "broadcast");
  }
}

void long_data() {
  dlaunch::init_process_group({.backend = "mpi"});
  const int rank = dlaunch::get_rank();
  const int size = dlaunch::get_world_size();
  const std::int64_t sum = size * (size + 1) / 2;
  for (const std::size_t count : {300, 700, 1501, 3001, 9001, 60'001, 300'001}) reduce_long(count);
  std::vector<Values> blocks;  // for each rank; that of rank 0 is empty
  std::vector<Values> gathered;
  for (int to = 0; to < size; ++to) {
    const auto length = static_cast<std::size_t>(to) * 70'001;
    blocks.push_back(values_of(length, (rank + 1) * (to + 1)));
    gathered.emplace_back(length);
  }
  std::vector<dlaunch::Tensor> inputs;
  std::vector<dlaunch::Tensor> outputs;
  for (Values& block : blocks) inputs.push_back(dlaunch::Tensor::of(block));
  for (Values& block : gathered) outputs.push_back(dlaunch::Tensor::of(block));
  Values& own = blocks[static_cast<std::size_t>(rank)];
  Values part(own.size());
  dlaunch::reduce_scatter(dlaunch::Tensor::of(part), inputs);
  require(part == values_of(part.size(), sum * (rank + 1)), "reduce_scatter");
  dlaunch::all_gather(outputs, dlaunch::Tensor::of(own));
  for (int from = 0; from < size; ++from) {
    const Values& block = gathered[static_cast<std::size_t>(from)];
    require(block == values_of(block.size(), (from + 1) * (from + 1)), "all_gather");
  }
  std::printf("rank %d: all is right\n", rank);
}

void lengths() {
  dlaunch::init_process_group({.backend = "mpi"});
  std::vector<float> values(dlaunch::get_rank() == 0 ? 8 : 4);
  if (dlaunch::get_rank() == 0) {
    dlaunch::send(dlaunch::Tensor::of(values), 1);
    return;
  }
  try {
    dlaunch::recv(dlaunch::Tensor::of(values), 0);
  } catch (const dlaunch::DistBackendError& e) {
    std::printf("rank 1: %s\n", e.what());
  }
}

// Rank 1 expects more than rank 0 sends.
void counts(std::size_t sent, std::size_t expected) {
  dlaunch::init_process_group({.backend = "mpi"});
  std::vector<float> values(dlaunch::get_rank() == 0 ? sent : expected);
  try {
    dlaunch::broadcast(dlaunch::Tensor::of(values), 0);
  } catch (const dlaunch::DistNetworkError& e) {
    std::printf("rank %d: %s\n", dlaunch::get_rank(), e.what());
  }
}

// The process of rank 0 ends last: mpirun ends the others with it.
void deadline(const std::filesystem::path& directory, bool is_rank_zero) {
  using std::chrono::seconds;
  const auto has_printed = directory / "rank 1 has printed";
  dlaunch::init_process_group({.backend = "mpi", .timeout = is_rank_zero ? seconds(10) : seconds(120)});
  std::vector<float> values(4);
  try {
    if (is_rank_zero) {
      dlaunch::all_reduce(dlaunch::Tensor::of(values));
    } else {
      dlaunch::recv(dlaunch::Tensor::of(values), 0);
    }
  } catch (const dlaunch::DistError& e) {
    std::printf("rank %d: %s\n", dlaunch::get_rank(), e.what());
    std::fflush(stdout);
  }
  if (!is_rank_zero) {
    std::ofstream(has_printed).put('\n');
    return;
  }
  const auto limit = std::chrono::steady_clock::now() + seconds(60);
  while (!std::filesystem::exists(has_printed) && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void deadlock() {
  dlaunch::init_process_group({.backend = "mpi"});
  std::vector<float> values(4);
  dlaunch::recv(dlaunch::Tensor::of(values), 1 - dlaunch::get_rank());
}

void dead() {
  dlaunch::init_process_group({.backend = "mpi"});
  if (dlaunch::get_rank() == 1) std::raise(SIGKILL);
  std::vector<float> values(4);
  try {
    dlaunch::all_reduce(dlaunch::Tensor::of(values));
  } catch (const dlaunch::DistNetworkError& e) {
    std::fprintf(stderr, "%s\n", e.what());
    // The launcher ends this rank. It names one that ended first, and may see both ends at once.
    std::this_thread::sleep_for(std::chrono::seconds(30));
    throw;
  }
}

void lost(const std::string& directory) {
  dlaunch::init_process_group({.backend = "mpi"});
  if (dlaunch::get_rank() == 1) execlp("sleep", "sleep", "100", nullptr);
  std::vector<float> values(4);
  try {
    dlaunch::all_reduce(dlaunch::Tensor::of(values));
  } catch (const dlaunch::DistNetworkError& e) {
    const std::string file = directory + "/error." + std::to_string(dlaunch::get_rank());
    std::ofstream(file + ".new") << e.what() << '\n';
    std::filesystem::rename(file + ".new", file);
  }
  // Its launcher would end the others.
  std::this_thread::sleep_for(std::chrono::seconds(100));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  try {
    if (mode == "worlds") {
      worlds();
    } else if (mode == "lengths") {
      lengths();
    } else if (mode == "counts") {
      counts(4, 5);
    } else if (mode == "counts_in_pieces") {
      counts(1600, 1700);
    } else if (mode == "long") {
      long_data();
    } else if (mode == "deadline" && argc > 2) {
      deadline(argv[2], dlaunch::get_node_local_rank() == 0);
    } else if (mode == "deadlock") {
      deadlock();
    } else if (mode == "dead") {
      dead();
    } else if (mode == "lost" && argc > 2) {
      lost(argv[2]);
    } else {
      return 2;
    }
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "mpi_ranks: %s\n", e.what());
    return 1;
  }
}
