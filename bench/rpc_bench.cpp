// Remote calls between two workers: the time of an empty call, calls a second, the speed of large arguments
// next to that of messages of a group, and what a million calls leave in memory. rpc_bench.py runs it next to
// PyTorch's; each line is a name and a number.
//
//   build/bin/dlaunch --nproc-per-node=2 build/bin/rpc_bench                                      within a
//   host DLAUNCH_RPC_UNIX=0 DLAUNCH_SHM=0 build/bin/dlaunch --nproc-per-node=2 build/bin/rpc_bench     TCP
#include <dlaunch/distributed.h>
#include <dlaunch/rpc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using dlaunch::rpc::rpc_async;
using dlaunch::rpc::rpc_sync;

constexpr std::size_t large = std::size_t{64} << 20U;  // bytes
constexpr int large_calls = 12;

void nothing() {}
DLAUNCH_RPC(nothing);
std::size_t take(std::span<const float> values) { return values.size(); }
DLAUNCH_RPC(take);
// Of this process, in bytes.
long resident() {
  std::ifstream file("/proc/self/statm");
  long whole = 0;
  long pages = 0;
  file >> whole >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}
DLAUNCH_RPC(resident);
// Of this process's threads so far, in seconds.
double processor_time() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}
DLAUNCH_RPC(processor_time);

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Times {  // of a call, in microseconds
  double median;
  double p99;
};

// `is_enough` gets the number of calls made.
Times times_of(const auto& call, const auto& is_enough) {
  std::vector<double> times;
  do {
    const auto begin = Clock::now();
    call();
    times.push_back(seconds_since(begin) * 1e6);
  } while (!is_enough(times.size()));
  std::ranges::sort(times);
  return {times[times.size() / 2], times[times.size() * 99 / 100]};
}

void call_nothing() { rpc_sync("worker1", nothing); }

void latency() {
  const Times times = times_of(call_nothing, [](std::size_t calls) { return calls == 20'000; });
  std::printf("call_us %.2f\ncall_p99_us %.2f\n", times.median, times.p99);
}

// Calls a second.
double run_pipelined(std::size_t calls) {
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
  return static_cast<double>(calls) / seconds_since(begin);
}

// Also what a call costs its caller and its callee of a processor, in microseconds.
void throughput() {
  constexpr std::size_t calls = 300'000;
  const double before_there = rpc_sync("worker1", processor_time);
  const double before = processor_time();
  std::printf("calls_per_s %.0f\n", run_pipelined(calls));
  const double here = processor_time() - before;
  const double there = rpc_sync("worker1", processor_time) - before_there;
  std::printf("caller_us %.2f\ncallee_us %.2f\n", here / calls * 1e6, there / calls * 1e6);
}

double bytes_per_second(Clock::time_point begin) {
  return static_cast<double>(large_calls) * static_cast<double>(large) / seconds_since(begin);
}

void bandwidth() {
  const std::vector<float> values(large / sizeof(float), 1.F);
  rpc_sync("worker1", take, values);
  const auto begin = Clock::now();
  for (int i = 0; i < large_calls; ++i) rpc_sync("worker1", take, values);
  std::printf("argument_bytes_per_s %.0f\n", bytes_per_second(begin));
}

// 64 MiB as argument, first on the connection that was there, and the time of an empty call while another
// thread sends such arguments.
void large_only() {
  const std::vector<float> values(large / sizeof(float), 1.F);
  for (int i = 0; i < 3; ++i) rpc_sync("worker1", take, values);  // further connections are made meanwhile
  bandwidth();
  std::atomic<bool> is_done = false;
  std::thread other([&] {
    for (int i = 0; i < large_calls; ++i) rpc_sync("worker1", take, values);
    is_done = true;
  });
  const Times times = times_of(call_nothing, [&](std::size_t) { return is_done.load(); });
  other.join();
  std::printf("call_beside_us %.1f\ncall_beside_p99_us %.1f\n", times.median, times.p99);
}

// The time of a call with an argument of each size.
void sizes() {
  for (std::size_t size = std::size_t{128} << 10U; size <= std::size_t{8} << 20U; size *= 2) {
    const std::vector<float> values(size / sizeof(float), 1.F);
    const Times times =
        times_of([&] { rpc_sync("worker1", take, values); }, [](std::size_t calls) { return calls == 300; });
    std::printf("call_with_%zu_us %.0f\n", size, times.median);
  }
}

void memory() {
  run_pipelined(100'000);
  const long before = resident();
  const long before_there = rpc_sync("worker1", resident);
  run_pipelined(1'000'000);
  std::printf("left_bytes %ld\nleft_there_bytes %ld\n", resident() - before,
              rpc_sync("worker1", resident) - before_there);
}

// The same bytes as messages of a group, each answered by a short one.
void messages() {
  dlaunch::init_process_group();
  std::vector<float> values(large / sizeof(float), 1.F);
  std::vector<float> answer(1);
  const bool sends = dlaunch::get_rank() == 0;
  const auto exchange = [&] {
    if (sends) {
      dlaunch::send(dlaunch::Tensor::of(values), 1);
      dlaunch::recv(dlaunch::Tensor::of(answer), 1);
    } else {
      dlaunch::recv(dlaunch::Tensor::of(values), 0);
      dlaunch::send(dlaunch::Tensor::of(answer), 0);
    }
  };
  exchange();
  const auto begin = Clock::now();
  for (int i = 0; i < large_calls; ++i) exchange();
  if (sends) std::printf("message_bytes_per_s %.0f\n", bytes_per_second(begin));
  dlaunch::destroy_process_group();
}

}  // namespace

int main(int count, char** arguments) {
  const char* const rank = std::getenv("RANK");
  if (!rank) {
    std::fprintf(stderr, "rpc_bench: run it with dlaunch --nproc-per-node=2\n");
    return 2;
  }
  const std::string what = count > 1 ? arguments[1] : "all";
  if (what == "all") messages();
  dlaunch::rpc::init_rpc(std::string("worker") + rank);
  const bool calls = std::string(rank) == "0";
  if (calls && what == "large") large_only();
  if (calls && what == "sizes") sizes();
  if (calls && (what == "all" || what == "small")) {
    latency();
    throughput();
  }
  if (calls && what == "all") bandwidth();
  if (calls && (what == "all" || what == "memory")) memory();
  dlaunch::rpc::shutdown();
}
