// A rank is killed at a random moment of collectives in shared memory, and of messages: the others get an
// error that names it, no result is wrong, and the processes go on with a new group. In every second group
// one rank shares no memory, as if it were on another host.

#include <dlaunch/distributed.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/rank_processes.h"
#include "tests/runtime/shared_memory.h"

namespace {

using dlaunch::ReduceOp;
using dlaunch::Tensor;
using dlaunch::test::contains;
using dlaunch::test::error_of;
using dlaunch::test::ProcessBarrier;
using dlaunch::test::run_processes;

constexpr int killed_ranks = 3;

// One operation with values that show whether the result is right; the same on all ranks, by `random`.
class Operations {
 public:
  Operations(int rank, unsigned seed) : rank_(rank), random_(seed) {}

  // Empty: the result is right.
  std::string next() {
    ++number_;
    const std::size_t count = std::size_t{1} << random_() % 19;  // up to 1 MiB
    const int root = static_cast<int>(random_() % killed_ranks);
    // Elsewhere, or where the others read it in place.
    const bool in_place = random_() % 2 == 0;
    const dlaunch::SharedMemory piece =
        in_place ? dlaunch::allocate_shared(all_of(count) * sizeof(float)) : dlaunch::SharedMemory();
    std::vector<float> elsewhere(in_place ? 0 : all_of(count));
    const std::span<float> memory = in_place ? piece.as<float>() : std::span(elsewhere);
    const std::span<float> own = memory.first(count);
    const std::span<float> all = memory.subspan(count);
    std::ranges::fill(memory, value_of(rank_));
    switch (random_() % 10) {
      case 0:
        dlaunch::all_reduce(Tensor::of(own));
        return check(own, value_of(0) + value_of(1) + value_of(2));
      case 1:
        dlaunch::broadcast(Tensor::of(own), root);
        return check(own, value_of(root));
      case 2:
        dlaunch::all_gather_into_tensor(Tensor::of(all), Tensor::of(own));
        return check_blocks(all);
      case 3:
        dlaunch::reduce(Tensor::of(own), root);
        return rank_ == root ? check(own, value_of(0) + value_of(1) + value_of(2))
                             : check(own, value_of(rank_));
      case 4:
        dlaunch::reduce_scatter_tensor(Tensor::of(own), Tensor::of(all));
        return check(own, value_of(0) + value_of(1) + value_of(2));
      case 5:
        all_.assign(all.size(), -1.0F);
        dlaunch::all_to_all_single(Tensor::of(all_), Tensor::of(all));
        return check_blocks(all_);
      case 6:
        dlaunch::barrier();
        return "";
      case 7:
      case 8:
        return pass_on(own);
      default:
        if (rank_ == root) dlaunch::send(Tensor::of(own), (root + 1) % killed_ranks);
        if (rank_ == (root + 1) % killed_ranks) dlaunch::recv(Tensor::of(own), root);
        return check(own, value_of(rank_ == (root + 1) % killed_ranks ? root : rank_));
    }
  }

 private:
  static constexpr std::size_t all_of(std::size_t count) { return count * (1 + killed_ranks); }

  // To the next rank, from the one before, without waiting in between.
  std::string pass_on(std::span<const float> own) {
    const int before = (rank_ + killed_ranks - 1) % killed_ranks;
    all_.assign(own.size(), -1);
    const dlaunch::Work out = dlaunch::isend(Tensor::of(own), (rank_ + 1) % killed_ranks);
    const dlaunch::Work in = dlaunch::irecv(Tensor::of(all_), before);
    try {
      in.wait();
    } catch (const dlaunch::DistError&) {
      (void)error_of([&] { out.wait(); });  // until then it reads the memory
      throw;
    }
    out.wait();
    return check(all_, value_of(before));
  }

  [[nodiscard]] float value_of(int rank) const { return static_cast<float>(number_ % 1000 * 4 + rank); }
  [[nodiscard]] std::string check(std::span<const float> values, float wanted) const {
    for (const float value : values) {
      if (value != wanted) return "wrong result of operation " + std::to_string(number_);
    }
    return "";
  }
  [[nodiscard]] std::string check_blocks(std::span<const float> values) const {
    const std::size_t count = values.size() / killed_ranks;
    for (int rank = 0; rank < killed_ranks; ++rank) {
      const std::string wrong =
          check(values.subspan(static_cast<std::size_t>(rank) * count, count), value_of(rank));
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

  const int rank_;
  std::mt19937 random_;
  int number_ = 0;
  std::vector<float> all_;
};

// The survivors form a new group.
std::string go_on(int rank, int victim, const std::string& file) {
  dlaunch::InitOptions options;
  options.rank = rank < victim ? rank : rank - 1;
  options.world_size = killed_ranks - 1;
  options.init_method = "file://" + file;
  dlaunch::init_process_group(options);
  std::vector<float> values(50000, 1);
  dlaunch::all_reduce(Tensor::of(values));
  dlaunch::destroy_process_group();
  return values.back() == killed_ranks - 1 ? "ok" : "the new group is wrong";
}

class SharedKill : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(AtARandomMoment, SharedKill, testing::Range(0U, 24U));

TEST_P(SharedKill, SurvivorsNameTheRankAndGoOn) {
  const unsigned seed = GetParam() + (std::getenv("SHARED_KILL_SEED")
                                          ? static_cast<unsigned>(std::atoi(std::getenv("SHARED_KILL_SEED")))
                                          : 0U);
  const int victim = static_cast<int>(seed % killed_ranks);
  const auto folder = std::filesystem::temp_directory_path() / ("shared_kill." + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string file = folder / std::to_string(seed);
  const ProcessBarrier ready(killed_ranks);
  const auto results = run_processes(killed_ranks, [&](int rank) -> std::string {
    if (seed % 2 == 1 && rank == static_cast<int>(seed / 2 % killed_ranks)) setenv("DLAUNCH_SHM", "0", 1);
    if (seed % 4 < 2) setenv("DLAUNCH_SHM_DIRECT", "1", 1);  // also if it takes longer here
    dlaunch::init_process_group();
    Operations operations(rank, seed);
    ready.meet();
    std::thread killer;
    if (rank == victim) {
      killer = std::thread([seed] {
        std::this_thread::sleep_for(std::chrono::microseconds(std::mt19937(seed)() % 20000));
        kill(getpid(), SIGKILL);
      });
      killer.detach();
    }
    std::string wrong;
    const std::string error = error_of([&] {
      while (wrong.empty()) wrong = operations.next();
    });
    if (!wrong.empty()) return wrong;
    if (!contains(error, "peer " + std::to_string(victim)) &&
        !contains(error, "rank " + std::to_string(victim)))
      return error;
    dlaunch::destroy_process_group();
    return go_on(rank, victim, file);
  });
  for (int rank = 0; rank < killed_ranks; ++rank) {
    if (rank != victim) {
      EXPECT_EQ(results[static_cast<std::size_t>(rank)].said, "ok") << "rank " << rank;
    }
  }
  EXPECT_TRUE(WIFSIGNALED(results[static_cast<std::size_t>(victim)].status));
  std::filesystem::remove_all(folder);
}

}  // namespace
