// The measuring loop of host_bench.py: the same for every library, so that only the library differs.
//
// A library has rank(), size(), barrier(), max_of(double), memory(floats), which returns an owner whose get()
// is zeros, and the operations below, blocking and on floats. Prints a line "OPERATION BYTES MICROSECONDS..."
// for each cell, with a time for each library: the median over batches of a call's mean time, each on the
// rank that needs longest. `bytes` is what one rank has most of; a ping-pong's time is that of one way.
//
// Several libraries of one process take turns, batch by batch, on the same memory: what its place costs is
// the same for all.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <vector>

// What a program has without a library's help. It begins a page: the kernel's copy of 16 KiB from another
// process takes 2.6 us into such memory, and 3.5 us if it begins 32 bytes later, and the heaps of two
// programs differ.
inline std::shared_ptr<float> own_memory(std::size_t count) {
  constexpr std::size_t page = 4096;
  const std::size_t bytes = (count * sizeof(float) + page - 1) / page * page;
  void* const memory = std::aligned_alloc(page, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0, bytes);
  return {static_cast<float*>(memory), std::free};
}

template <class First, class... Others>
class HostCollectives {
 public:
  explicit HostCollectives(First& first, Others&... others) : first_(first), libraries_(first, others...) {}

  // OPERATION ("all") [SMALLEST [LARGEST [FACTOR [SECONDS of a cell and library]]]]
  void run(int argc, char** argv) {
    wanted_ = argc > 1 ? argv[1] : "all";
    const std::size_t smallest = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 4;
    const std::size_t largest = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : std::size_t{64} << 20;
    const std::size_t factor = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 4;
    seconds_ = argc > 5 ? std::atof(argv[5]) : 0.2;
    measure("barrier", 0, [](auto& library) { library.barrier(); });
    for (std::size_t bytes = smallest; bytes <= largest; bytes *= factor) run_at(bytes);
    memory_copy();
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Call = std::function<void()>;

  void run_at(std::size_t bytes) {
    const auto ranks = static_cast<std::size_t>(first_.size());
    const std::size_t count = bytes / sizeof(float);
    const std::size_t block = std::max<std::size_t>(1, count / ranks);
    const auto a = first_.memory(std::max(count, block * ranks));
    const auto b = first_.memory(std::max(count, block * ranks));
    float* const x = a.get();
    float* const y = b.get();
    measure("all_reduce", bytes, [=](auto& library) { library.all_reduce(x, count); });
    measure("reduce", bytes, [=](auto& library) { library.reduce(x, y, count); });
    measure("broadcast", bytes, [=](auto& library) { library.broadcast(x, count); });
    measure("all_gather", bytes, [=](auto& library) { library.all_gather(x, y, block); });
    measure("reduce_scatter", bytes, [=](auto& library) { library.reduce_scatter(x, y, block); });
    measure("all_to_all", bytes, [=](auto& library) { library.all_to_all(x, y, block); });
    measure("gather", bytes, [=](auto& library) { library.gather(x, y, block); });
    measure("scatter", bytes, [=](auto& library) { library.scatter(x, y, block); });
    if (ranks < 2) return;
    measure(
        "ping_pong", bytes, [=](auto& library) { library.ping_pong(x, count); }, 0.5);
  }

  // `operation` is called with a library.
  template <class Operation>
  void measure(const char* name, std::size_t bytes, const Operation& operation, double scale = 1) {
    if (wanted_ != "all" && wanted_ != name) return;
    const auto calls = std::apply(
        [&](auto&... library) { return std::vector<Call>{[&] { operation(library); }...}; }, libraries_);
    const std::vector<double> times = medians(calls);
    if (first_.rank() != 0) return;
    std::printf("%s %zu", name, bytes);
    for (const double time : times) std::printf(" %.3f", time * scale);
    std::printf("\n");
    std::fflush(stdout);
  }

  // Of the time of each call, in microseconds.
  std::vector<double> medians(const std::vector<Call>& calls) {
    constexpr double shortest_batch = 1e3;  // microseconds
    double once = 0;
    for (const Call& call : calls) {
      time(call, 3);
      once = std::max(once, time(call, 5));
    }
    const int length = static_cast<int>(std::clamp(shortest_batch / once, 1.0, 5000.0));
    const int batches = static_cast<int>(std::clamp(seconds_ * 1e6 / (once * length), 5.0, 201.0));
    std::vector<std::vector<double>> times(calls.size());
    for (int batch = 0; batch < batches; ++batch) {
      for (std::size_t i = 0; i < calls.size(); ++i) times[i].push_back(time(calls[i], length));
    }
    std::vector<double> result;
    for (std::vector<double>& of_one : times) {
      std::ranges::nth_element(of_one, of_one.begin() + batches / 2);
      result.push_back(of_one[static_cast<std::size_t>(batches) / 2]);
    }
    return result;
  }

  double time(const Call& call, int calls) {
    first_.barrier();
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    return first_.max_of(std::chrono::duration<double, std::micro>(Clock::now() - begin).count()) / calls;
  }

  // Of the machine, all ranks at once: bytes copied a second, by block.
  void memory_copy() {
    if (wanted_ != "all" && wanted_ != "memcpy") return;
    for (const std::size_t bytes : {std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{64} << 20}) {
      std::vector<char> from(bytes, 1);
      std::vector<char> to(bytes);
      measure("memcpy", bytes, [&](auto& /*library*/) { std::memcpy(to.data(), from.data(), bytes); });
    }
  }

  First& first_;
  const std::tuple<First&, Others&...> libraries_;
  std::string wanted_;
  double seconds_ = 0;
};
