// What a call through libdlaunch costs over the bare call of NCCL: the host's
// time of an all_reduce of one float, and the time of large ones on the GPU. Under dlaunch, with a GPU for
// each rank (or a shared one, if NCCL_MULTI_RANK_GPU_ENABLE=1), or with the doubles of tests/doubles in
// LD_LIBRARY_PATH (only the host's time says something then: pass 0). Medians of batches; the GPU is waited
// for between them.

#include <dlaunch/distributed.h>
#include <dlaunch/stream.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <vector>

#include "runtime/backends/nccl/nccl_library.h"

namespace {

using dlaunch::internal::NcclFunctions;
using Clock = std::chrono::steady_clock;

constexpr int batches = 21;
constexpr int fewest_in_a_batch = 10;
constexpr int most_in_a_batch = 200;
constexpr int large_in_a_batch = 10;
constexpr std::size_t smallest = std::size_t{1} << 20U;

void wait_for(const NcclFunctions& call, cudaStream_t stream) {
  cudaEvent_t end = nullptr;
  (void)call.cudaEventCreateWithFlags(&end, cudaEventDisableTiming);
  (void)call.cudaEventRecord(end, stream);
  while (call.cudaEventQuery(end) == cudaErrorNotReady) {
  }
  (void)call.cudaEventDestroy(end);
}

// So many that the GPU has done them in some hundredths of a second: the same on all ranks.
template <class Once, class Wait>
int in_a_batch(const Once& once, const Wait& wait) {
  constexpr int tries = 5;
  constexpr double longest_us = 40'000;
  once();
  wait();
  const auto began = Clock::now();
  for (int i = 0; i < tries; ++i) once();
  wait();
  std::array<double, 1> each = {std::chrono::duration<double, std::micro>(Clock::now() - began).count() /
                                tries};
  dlaunch::all_reduce(dlaunch::Tensor::of(each), dlaunch::ReduceOp::max);
  return std::clamp(static_cast<int>(longest_us / each[0]), fewest_in_a_batch, most_in_a_batch);
}

// Of the host: until the calls have returned.
template <class Once, class Wait>
double microseconds_each(const Once& once, const Wait& wait) {
  const int count = in_a_batch(once, wait);
  std::vector<double> times;
  for (int batch = 0; batch < batches; ++batch) {
    const auto began = Clock::now();
    for (int i = 0; i < count; ++i) once();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - began).count() / count);
    wait();
  }
  std::ranges::sort(times);
  return times[batches / 2];
}

ncclComm_t own_communicator(const NcclFunctions& call) {
  ncclUniqueId id{};
  if (dlaunch::get_rank() == 0) (void)call.ncclGetUniqueId(&id);
  std::array<char, sizeof id> bytes{};
  std::memcpy(bytes.data(), &id, sizeof id);
  dlaunch::broadcast(dlaunch::Tensor::of(bytes), 0);
  std::memcpy(&id, bytes.data(), sizeof id);
  ncclComm_t communicator = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  (void)call.ncclCommInitRankConfig(&communicator, dlaunch::get_world_size(), id, dlaunch::get_rank(),
                                    &config);
  return communicator;
}

struct Bench {
  const NcclFunctions& call;
  int device;
  ncclComm_t communicator;
  void* memory = nullptr;
  cudaStream_t stream = nullptr;

  void reduce_bare(std::size_t count) const {
    (void)call.ncclAllReduce(memory, memory, count, ncclFloat32, ncclSum, communicator, stream);
  }
  [[nodiscard]] dlaunch::Tensor tensor(std::size_t count) const {
    return dlaunch::Tensor::from(static_cast<float*>(memory), {static_cast<std::int64_t>(count)},
                                 {dlaunch::Device::Kind::cuda, device});
  }
};

void compare_host_time(const Bench& bench) {
  const NcclFunctions& call = bench.call;
  cudaEvent_t event = nullptr;
  (void)call.cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  const auto bare = [&] { bench.reduce_bare(1); };
  const auto with_events = [&] {
    (void)call.cudaEventRecord(event, nullptr);
    (void)call.cudaStreamWaitEvent(bench.stream, event, 0);
    bare();
    (void)call.cudaEventRecord(event, bench.stream);
    (void)call.cudaStreamWaitEvent(nullptr, event, 0);
  };
  const dlaunch::Tensor one = bench.tensor(1);
  const auto ours = [&] { dlaunch::all_reduce(one); };
  const auto on_own = [&] { wait_for(call, bench.stream); };
  const auto on_default = [&] { wait_for(call, nullptr); };
  const double bare_time = microseconds_each(bare, on_own);
  const double events_time = microseconds_each(with_events, on_default);
  const dlaunch::StreamGuard in_the_same({bench.stream}, bench.device);
  const double our_time = microseconds_each(ours, on_own);
  (void)call.cudaEventDestroy(event);
  if (dlaunch::get_rank() != 0) return;
  std::printf("ncclAllReduce %.2f us; with the events that order it %.2f us; all_reduce %.2f us\n", bare_time,
              events_time, our_time);
}

// The two take turns, so that what else the machine does hits both.
void compare_throughput(const Bench& bench, std::size_t bytes) {
  const std::size_t count = bytes / sizeof(float);
  const dlaunch::Tensor values = bench.tensor(count);
  std::vector<double> bare;
  std::vector<double> ours;
  const auto time_of = [&](const auto& once, cudaStream_t end) {
    dlaunch::barrier();
    const auto began = Clock::now();
    for (int i = 0; i < large_in_a_batch; ++i) once();
    wait_for(bench.call, end);
    return std::chrono::duration<double, std::micro>(Clock::now() - began).count() / large_in_a_batch;
  };
  for (int batch = 0; batch < batches; ++batch) {
    bare.push_back(time_of([&] { bench.reduce_bare(count); }, bench.stream));
    ours.push_back(time_of([&] { dlaunch::all_reduce(values); }, nullptr));
  }
  std::ranges::sort(bare);
  std::ranges::sort(ours);
  if (dlaunch::get_rank() != 0) return;
  const double bare_time = bare[batches / 2];
  const double our_time = ours[batches / 2];
  std::printf("%zu KiB: ncclAllReduce %.1f us (%.1f GB/s), all_reduce %.1f us: %.3f times as long\n",
              bytes / 1024, bare_time, static_cast<double>(bytes) / bare_time / 1000, our_time,
              our_time / bare_time);
}

void measure(std::size_t largest) {
  const NcclFunctions& call = dlaunch::internal::NcclLibrary::get().functions();
  int devices = 1;
  (void)call.cudaGetDeviceCount(&devices);
  const int device = dlaunch::get_node_local_rank(0) % devices;
  dlaunch::init_process_group({.backend = "cpu:gloo,cuda:nccl", .device_id = device});
  (void)call.cudaSetDevice(device);
  Bench bench{call, device, own_communicator(call)};
  (void)call.cudaMalloc(&bench.memory, std::max(largest, sizeof(float)));
  (void)call.cudaStreamCreateWithPriority(&bench.stream, cudaStreamNonBlocking, 0);
  compare_host_time(bench);
  for (std::size_t bytes = smallest; bytes <= largest; bytes *= 8) compare_throughput(bench, bytes);
  (void)call.cudaFree(bench.memory);
  (void)call.ncclCommDestroy(bench.communicator);
  dlaunch::destroy_process_group();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    measure(argc > 1 ? static_cast<std::size_t>(std::atoi(argv[1])) << 20U : std::size_t{1} << 29U);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "nccl_bench: %s\n", e.what());
    return 1;
  }
}
