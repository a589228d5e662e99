// What a call through libdlaunch costs the host over the bare call of a
// non-blocking communicator of NCCL: all_reduce of one float. Under
// dlaunch, with a GPU for each rank, or with the doubles of tests/doubles in LD_LIBRARY_PATH (host time
// only). Medians of batches; the GPU is waited for between them.

#include <dlaunch/distributed.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <vector>

#include "runtime/backends/nccl/nccl_library.h"

namespace {

using dlaunch::internal::NcclFunctions;
using Clock = std::chrono::steady_clock;

constexpr int batches = 21;
constexpr int in_a_batch = 200;

void wait_for(const NcclFunctions& call, cudaStream_t stream) {
  cudaEvent_t end = nullptr;
  (void)call.cudaEventCreateWithFlags(&end, cudaEventDisableTiming);
  (void)call.cudaEventRecord(end, stream);
  while (call.cudaEventQuery(end) == cudaErrorNotReady) {
  }
  (void)call.cudaEventDestroy(end);
}

template <class Once, class Wait>
double microseconds_each(const Once& once, const Wait& wait) {
  std::vector<double> times;
  for (int batch = 0; batch < batches; ++batch) {
    const auto began = Clock::now();
    for (int i = 0; i < in_a_batch; ++i) once();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - began).count() / in_a_batch);
    wait();
  }
  std::ranges::sort(times);
  return times[batches / 2];
}

// As a program with a non-blocking communicator has to, without a pause.
void complete(const NcclFunctions& call, ncclComm_t communicator) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) (void)call.ncclCommGetAsyncError(communicator, &state);
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
  config.blocking = 0;
  (void)call.ncclCommInitRankConfig(&communicator, dlaunch::get_world_size(), id, dlaunch::get_rank(),
                                    &config);
  complete(call, communicator);
  return communicator;
}

void measure() {
  const int device = dlaunch::get_node_local_rank(0);
  dlaunch::init_process_group({.backend = "cpu:gloo,cuda:nccl", .device_id = device});
  const NcclFunctions& call = dlaunch::internal::NcclLibrary::get().functions();
  (void)call.cudaSetDevice(device);
  void* memory = nullptr;
  (void)call.cudaMalloc(&memory, sizeof(float));
  const ncclComm_t communicator = own_communicator(call);
  cudaStream_t stream = nullptr;
  (void)call.cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
  cudaEvent_t event = nullptr;
  (void)call.cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  const auto bare = [&] {
    (void)call.ncclAllReduce(memory, memory, 1, ncclFloat32, ncclSum, communicator, stream);
    complete(call, communicator);
  };
  const auto with_events = [&] {
    (void)call.cudaEventRecord(event, nullptr);
    (void)call.cudaStreamWaitEvent(stream, event, 0);
    bare();
    (void)call.cudaEventRecord(event, stream);
    (void)call.cudaStreamWaitEvent(nullptr, event, 0);
  };
  const auto tensor =
      dlaunch::Tensor::from(static_cast<float*>(memory), {1}, {dlaunch::Device::Kind::cuda, device});
  const auto ours = [&] { dlaunch::all_reduce(tensor); };
  const auto on_own = [&] { wait_for(call, stream); };
  const auto on_default = [&] { wait_for(call, nullptr); };
  const double bare_time = microseconds_each(bare, on_own);
  const double events_time = microseconds_each(with_events, on_default);
  const double our_time = microseconds_each(ours, on_default);
  if (dlaunch::get_rank() == 0) {
    std::printf("ncclAllReduce %.2f us; with the events that order it %.2f us; all_reduce %.2f us\n",
                bare_time, events_time, our_time);
  }
  (void)call.ncclCommDestroy(communicator);
  dlaunch::destroy_process_group();
}

}  // namespace

int main() {
  try {
    measure();
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "nccl_bench: %s\n", e.what());
    return 1;
  }
}
