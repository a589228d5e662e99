// The measuring loop of host_bench.py: the same for every library, so that only the library differs.
//
// A Library has rank(), size(), barrier(), max_of(double), memory(floats), which returns an owner whose get()
// is zeros, and the operations below, blocking and on floats. Prints a line "OPERATION BYTES MICROSECONDS"
// for each cell: the median over batches of a call's mean time, each on the rank that needs longest. `bytes`
// is what one rank has most of; a ping-pong's time is that of one way.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

// What a program has without a library's help.
inline std::shared_ptr<float> own_memory(std::size_t count) {
  const auto values = std::make_shared<std::vector<float>>(count);
  return {values, values->data()};
}

template <class Library>
class HostCollectives {
 public:
  explicit HostCollectives(Library& library) : library_(library) {}

  // OPERATION ("all") [SMALLEST [LARGEST [FACTOR [SECONDS of a cell]]]]
  void run(int argc, char** argv) {
    wanted_ = argc > 1 ? argv[1] : "all";
    const std::size_t smallest = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 4;
    const std::size_t largest = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : std::size_t{64} << 20;
    const std::size_t factor = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 4;
    seconds_ = argc > 5 ? std::atof(argv[5]) : 0.2;
    measure("barrier", 0, [&] { library_.barrier(); });
    for (std::size_t bytes = smallest; bytes <= largest; bytes *= factor) run_at(bytes);
    memory_copy();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void run_at(std::size_t bytes) {
    const auto ranks = static_cast<std::size_t>(library_.size());
    const std::size_t count = bytes / sizeof(float);
    const std::size_t block = std::max<std::size_t>(1, count / ranks);
    const auto a = library_.memory(std::max(count, block * ranks));
    const auto b = library_.memory(std::max(count, block * ranks));
    float* const x = a.get();
    float* const y = b.get();
    measure("all_reduce", bytes, [&] { library_.all_reduce(x, count); });
    measure("reduce", bytes, [&] { library_.reduce(x, y, count); });
    measure("broadcast", bytes, [&] { library_.broadcast(x, count); });
    measure("all_gather", bytes, [&] { library_.all_gather(x, y, block); });
    measure("reduce_scatter", bytes, [&] { library_.reduce_scatter(x, y, block); });
    measure("all_to_all", bytes, [&] { library_.all_to_all(x, y, block); });
    measure("gather", bytes, [&] { library_.gather(x, y, block); });
    measure("scatter", bytes, [&] { library_.scatter(x, y, block); });
    if (ranks < 2) return;
    measure(
        "ping_pong", bytes, [&] { library_.ping_pong(x, count); }, 0.5);
  }

  void measure(const char* name, std::size_t bytes, const std::function<void()>& call, double scale = 1) {
    if (wanted_ != "all" && wanted_ != name) return;
    constexpr double shortest_batch = 1e3;  // microseconds
    time(call, 3);
    const double once = time(call, 5);
    const int calls = static_cast<int>(std::clamp(shortest_batch / once, 1.0, 5000.0));
    const int batches = static_cast<int>(std::clamp(seconds_ * 1e6 / (once * calls), 5.0, 201.0));
    std::vector<double> times;
    for (int batch = 0; batch < batches; ++batch) times.push_back(time(call, calls));
    std::ranges::nth_element(times, times.begin() + batches / 2);
    if (library_.rank() != 0) return;
    std::printf("%s %zu %.3f\n", name, bytes, times[static_cast<std::size_t>(batches) / 2] * scale);
    std::fflush(stdout);
  }

  double time(const std::function<void()>& call, int calls) {
    library_.barrier();
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    return library_.max_of(std::chrono::duration<double, std::micro>(Clock::now() - begin).count()) / calls;
  }

  // Of the machine, all ranks at once: bytes copied a second, by block.
  void memory_copy() {
    if (wanted_ != "all" && wanted_ != "memcpy") return;
    for (const std::size_t bytes : {std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{64} << 20}) {
      std::vector<char> from(bytes, 1);
      std::vector<char> to(bytes);
      const auto copy = [&] { std::memcpy(to.data(), from.data(), bytes); };
      measure("memcpy", bytes, copy);
    }
  }

  Library& library_;
  std::string wanted_;
  double seconds_ = 0;
};
