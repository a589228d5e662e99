// Our collectives over Gloo's transport next to Gloo's own collectives: same processes, same connections'
// kind, turn by turn, so that whatever else the machine does hits both. Prints the median of each and the
// ratio.
//
//   collective_bench RANKS [LARGEST_BYTES]

#include <dlaunch/distributed.h>
#include <dlaunch/spawn.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

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
  Bench(int rank, int size, const std::string& folder) : rank_(rank), size_(size) {
    dlaunch::init_process_group();
    ::gloo::transport::tcp::attr attr;
    attr.hostname = "127.0.0.1";
    auto device = ::gloo::transport::tcp::CreateDevice(attr);
    ::gloo::rendezvous::FileStore store(folder);
    context_ = std::make_shared<::gloo::rendezvous::Context>(rank, size);
    context_->connectFullMesh(store, device);
  }

  void run(std::size_t largest) {
    if (rank_ == 0) std::printf("%-18s %10s %12s %12s %8s\n", "", "bytes", "dlaunch us", "Gloo us", "ratio");
    compare(
        "barrier", 0, [] { dlaunch::barrier(); },
        [this] {
          ::gloo::BarrierOptions options(context_);
          options.setTag(tag_++);
          ::gloo::barrier(options);
        });
    for (std::size_t bytes = 4; bytes <= largest; bytes *= 8) {
      const std::size_t count = bytes / sizeof(float);
      const std::size_t ranks = static_cast<std::size_t>(size_);
      std::vector<float> a(count);
      std::vector<float> b(count);
      std::vector<float> wide_a(count * ranks);
      std::vector<float> wide_b(count * ranks);
      compare(
          "all_reduce", bytes, [&] { dlaunch::all_reduce(Tensor::of(a)); },
          [&] {
            ::gloo::AllreduceOptions options(context_);
            options.setOutput(a.data(), count);
            options.setReduceFunction(
                static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&::gloo::sum<float>));
            options.setTag(tag_++);
            ::gloo::allreduce(options);
          });
      compare(
          "broadcast", bytes, [&] { dlaunch::broadcast(Tensor::of(a), 0); },
          [&] {
            ::gloo::BroadcastOptions options(context_);
            options.setOutput(a.data(), count);
            options.setRoot(0);
            options.setTag(tag_++);
            ::gloo::broadcast(options);
          });
      compare(
          "reduce", bytes, [&] { dlaunch::reduce(Tensor::of(a), 0); },
          [&] {
            ::gloo::ReduceOptions options(context_);
            options.setInput(a.data(), count);
            options.setOutput(b.data(), count);
            options.setReduceFunction(
                static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&::gloo::sum<float>));
            options.setRoot(0);
            options.setTag(tag_++);
            ::gloo::reduce(options);
          });
      if (bytes * ranks > largest) continue;
      compare(
          "all_gather", bytes, [&] { dlaunch::all_gather_into_tensor(Tensor::of(wide_a), Tensor::of(a)); },
          [&] {
            ::gloo::AllgatherOptions options(context_);
            options.setInput(a.data(), count);
            options.setOutput(wide_a.data(), wide_a.size());
            options.setTag(tag_++);
            ::gloo::allgather(options);
          });
      compare(
          "all_to_all", bytes * ranks,
          [&] { dlaunch::all_to_all_single(Tensor::of(wide_b), Tensor::of(wide_a)); },
          [&] {
            ::gloo::AlltoallOptions options(context_);
            options.setInput(wide_a.data(), wide_a.size());
            options.setOutput(wide_b.data(), wide_b.size());
            options.setTag(tag_++);
            ::gloo::alltoall(options);
          });
    }
    dlaunch::destroy_process_group();
  }

 private:
  // All ranks decide alike how often: by the size alone.
  void compare(const char* name, std::size_t bytes, const std::function<void()>& ours,
               const std::function<void()>& theirs) {
    const int turns = bytes >= (std::size_t{8} << 20) ? 7 : bytes >= (std::size_t{256} << 10) ? 15 : 31;
    const int calls = bytes >= (std::size_t{1} << 20) ? 1 : bytes >= (std::size_t{32} << 10) ? 5 : 40;
    Side sides[] = {{ours}, {theirs}};
    for (Side& side : sides) side.once();
    for (int turn = 0; turn < turns; ++turn) {
      for (Side& side : sides) {
        dlaunch::barrier();
        const auto begin = Clock::now();
        for (int call = 0; call < calls; ++call) side.once();
        side.microseconds.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count() /
                                    calls);
      }
    }
    if (rank_ != 0) return;
    const double mine = sides[0].median();
    const double other = sides[1].median();
    std::printf("%-18s %10zu %12.1f %12.1f %7.2fx\n", name, bytes, mine, other, other / mine);
    std::fflush(stdout);
  }

  const int rank_;
  const int size_;
  std::shared_ptr<::gloo::rendezvous::Context> context_;
  std::uint32_t tag_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  const std::size_t largest = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::size_t{64} << 20;
  std::string folder = std::filesystem::temp_directory_path() / "dlaunch_bench.XXXXXX";
  if (!mkdtemp(folder.data())) return 1;
  int code = 0;
  try {
    dlaunch::spawn([&](int rank) { Bench(rank, ranks, folder).run(largest); }, ranks);
  } catch (const dlaunch::DistError& e) {
    std::fprintf(stderr, "collective_bench: %s\n", e.what());
    code = 1;
  }
  std::filesystem::remove_all(folder);
  return code;
}
