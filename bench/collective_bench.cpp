// Our collectives over Gloo's transport next to Gloo's own collectives: same processes, same kind of
// connections, turn by turn, so that whatever else the machine does hits both. A turn lasts until the slowest
// rank is through; printed are the median of each side's turns and Gloo's time by ours.
//
//   collective_bench RANKS [NAME [LARGEST_BYTES [SMALLEST_BYTES]]]
//
// NAME: one of the collectives, or in_flight, or all

#include <dlaunch/distributed.h>
#include <dlaunch/spawn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/gloo_collectives.h"

namespace {

using dlaunch::Tensor;
using Clock = std::chrono::steady_clock;

struct Side {
  std::function<void()> once;
  std::vector<double> microseconds = {};

  [[nodiscard]] double median() {
    std::ranges::sort(microseconds);
    return microseconds[microseconds.size() / 2];
  }
};

class Bench {
 public:
  Bench(int rank, int size, const std::string& folder, std::string wanted)
      : rank_(rank), size_(size), wanted_(std::move(wanted)) {
    dlaunch::init_process_group();
    gloo_.emplace(rank, size, folder);
  }
  ~Bench() { dlaunch::destroy_process_group(); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void run(std::size_t smallest, std::size_t largest) {
    heading("", "Gloo us");
    compare(
        "barrier", 0, [] { dlaunch::barrier(); }, [this] { gloo_->barrier(); });
    for (std::size_t bytes = smallest; bytes <= largest; bytes *= 4) compare_at(bytes);
    heading("16 all_reduce", "1 by 1 us");
    for (std::size_t bytes = smallest; bytes <= largest / 16; bytes *= 8) compare_in_flight(bytes);
  }

 private:
  // `bytes`: of what one rank has most of.
  void compare_at(std::size_t bytes) {
    const std::size_t ranks = static_cast<std::size_t>(size_);
    const std::size_t count = bytes / sizeof(float);
    std::vector<float> a(count);
    std::vector<float> b(count);
    compare(
        "all_reduce", bytes, [&] { dlaunch::all_reduce(Tensor::of(a)); }, [&] { gloo_->all_reduce(b); });
    compare(
        "reduce", bytes, [&] { dlaunch::reduce(Tensor::of(a), 0); }, [&] { gloo_->reduce(a, b, 0); });
    compare(
        "broadcast", bytes, [&] { dlaunch::broadcast(Tensor::of(a), 0); }, [&] { gloo_->broadcast(b, 0); });
    if (count < ranks) return;
    std::vector<float> block(count / ranks);
    a.resize(block.size() * ranks);
    b.resize(block.size() * ranks);
    std::vector<Tensor> blocks;
    for (std::size_t i = 0; i < ranks && rank_ == 0; ++i) {
      blocks.push_back(Tensor::of(std::span(a).subspan(i * block.size(), block.size())));
    }
    bytes = a.size() * sizeof(float);
    compare(
        "all_gather", bytes, [&] { dlaunch::all_gather_into_tensor(Tensor::of(a), Tensor::of(block)); },
        [&] { gloo_->all_gather(a, block); });
    compare(
        "all_to_all", bytes, [&] { dlaunch::all_to_all_single(Tensor::of(b), Tensor::of(a)); },
        [&] { gloo_->all_to_all(b, a); });
    compare(
        "gather", bytes, [&] { dlaunch::gather(blocks, Tensor::of(block), 0); },
        [&] { gloo_->gather(a, block, 0); });
    compare(
        "scatter", bytes, [&] { dlaunch::scatter(Tensor::of(block), blocks, 0); },
        [&] { gloo_->scatter(block, a, 0); });
  }

  // Sixteen operations at once, and one after the other.
  void compare_in_flight(std::size_t bytes) {
    std::vector<std::vector<float>> values(16, std::vector<float>(bytes / sizeof(float)));
    compare(
        "in_flight", bytes,
        [&] {
          dlaunch::CollectiveOptions async;
          async.async_op = true;
          std::vector<dlaunch::Work> works;
          for (auto& one : values) {
            works.push_back(dlaunch::all_reduce(Tensor::of(one), dlaunch::ReduceOp::sum, async));
          }
          for (const dlaunch::Work& work : works) work.wait();
        },
        [&] {
          for (auto& one : values) dlaunch::all_reduce(Tensor::of(one));
        });
  }

  // The same number of calls and turns on all ranks: they follow from times that all know.
  void compare(const char* name, std::size_t bytes, const std::function<void()>& ours,
               const std::function<void()>& theirs) {
    if (wanted_ != "all" && wanted_ != name) return;
    constexpr double turn_length = 3e3;    // microseconds, at least
    constexpr double cell_length = 600e3;  // about
    Side sides[] = {{ours}, {theirs}};
    double once = 0;
    for (Side& side : sides) {
      time(side, 2);  // the first ones are slower
      once += time(side, 2);
    }
    const int calls = static_cast<int>(std::clamp(turn_length / once * 2, 1.0, 100.0));
    const int turns = static_cast<int>(std::clamp(cell_length / (once * calls), 7.0, 61.0));
    for (int turn = 0; turn < turns; ++turn) {
      for (Side& side : sides) side.microseconds.push_back(time(side, calls));
    }
    if (rank_ != 0) return;
    const double mine = sides[0].median();
    const double other = sides[1].median();
    std::printf("%-14s %10zu %12.1f %12.1f %7.2fx\n", name, bytes, mine, other, other / mine);
    std::fflush(stdout);
  }

  // Of one call, in microseconds, on the rank that needed longest.
  static double time(Side& side, int calls) {
    dlaunch::barrier();
    const auto begin = Clock::now();
    for (int call = 0; call < calls; ++call) side.once();
    std::vector<double> length = {std::chrono::duration<double, std::micro>(Clock::now() - begin).count()};
    dlaunch::all_reduce(Tensor::of(length), dlaunch::ReduceOp::max);
    return length[0] / calls;
  }

  void heading(const char* what, const char* other) const {
    if (rank_ == 0) std::printf("%-14s %10s %12s %12s %8s\n", what, "bytes", "dlaunch us", other, "ratio");
  }

  const int rank_;
  const int size_;
  const std::string wanted_;
  std::optional<GlooCollectives> gloo_;
};

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  const std::string wanted = argc > 2 ? argv[2] : "all";
  const std::size_t largest = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : std::size_t{64} << 20;
  const std::size_t smallest = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : sizeof(float);
  std::string folder = std::filesystem::temp_directory_path() / "dlaunch_bench.XXXXXX";
  if (!mkdtemp(folder.data())) return 1;
  int code = 0;
  try {
    dlaunch::spawn([&](int rank) { Bench(rank, ranks, folder, wanted).run(smallest, largest); }, ranks);
  } catch (const dlaunch::DistError& e) {
    std::fprintf(stderr, "collective_bench: %s\n", e.what());
    code = 1;
  }
  std::filesystem::remove_all(folder);
  return code;
}
