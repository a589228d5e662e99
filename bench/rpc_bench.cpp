// Remote calls between two workers: the time of an empty call, calls a second, and the speed of large
// arguments.
//
//   build/bin/dlaunch --nproc-per-node=2 build/bin/rpc_bench                      Unix socket
//   DLAUNCH_RPC_UNIX=0 build/bin/dlaunch --nproc-per-node=2 build/bin/rpc_bench   TCP
#include <dlaunch/rpc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using dlaunch::rpc::rpc_async;
using dlaunch::rpc::rpc_sync;

void nothing() {}
DLAUNCH_RPC(nothing);
std::size_t take(std::span<const float> values) { return values.size(); }
DLAUNCH_RPC(take);

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void latency() {
  constexpr std::size_t calls = 20'000;
  std::vector<double> times;
  times.reserve(calls);
  for (std::size_t i = 0; i < calls; ++i) {
    const auto begin = Clock::now();
    rpc_sync("worker1", nothing);
    times.push_back(seconds_since(begin) * 1e6);
  }
  std::ranges::sort(times);
  std::printf("empty call            p50 %7.1f us   p99 %7.1f us\n", times[calls / 2],
              times[calls * 99 / 100]);
}

void throughput() {
  constexpr std::size_t calls = 300'000;
  constexpr std::size_t window = 1'000;
  std::deque<dlaunch::Future<void>> waiting;
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < calls; ++i) {
    waiting.push_back(rpc_async("worker1", nothing));
    if (waiting.size() < window) continue;
    waiting.front().wait();
    waiting.pop_front();
  }
  for (const auto& one : waiting) one.wait();
  std::printf("empty calls in flight %11.0f calls/s\n", static_cast<double>(calls) / seconds_since(begin));
}

void bandwidth() {
  const std::vector<float> values(std::size_t{16} << 20U, 1.F);  // 64 MiB
  constexpr int calls = 12;
  rpc_sync("worker1", take, values);
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i) rpc_sync("worker1", take, values);
  const double bytes = static_cast<double>(calls) * static_cast<double>(values.size() * sizeof(float));
  std::printf("64 MiB argument       %11.2f GB/s\n", bytes / seconds_since(begin) / 1e9);
}

}  // namespace

int main() {
  const char* const rank = std::getenv("RANK");
  if (!rank) {
    std::fprintf(stderr, "rpc_bench: run it with dlaunch --nproc-per-node=2\n");
    return 2;
  }
  dlaunch::rpc::init_rpc(std::string("worker") + rank);
  if (std::string(rank) == "0") {
    latency();
    throughput();
    bandwidth();
  }
  dlaunch::rpc::shutdown();
}
