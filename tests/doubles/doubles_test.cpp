// The doubles do what their tests rely on: what a program has not ordered comes out wrong, and what it must
// not touch ends it.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "tests/runtime/cuda/device_values.h"

namespace doubles {
namespace {

using dlaunch::test::DeviceValues;
using dlaunch::test::require;

std::array<cudaStream_t, 2> two_streams() {
  std::array<cudaStream_t, 2> streams{};
  for (cudaStream_t& stream : streams) {
    require(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), "cudaStreamCreateWithPriority");
  }
  return streams;
}

// How often of 50 times a copy in the second stream came after the one in the first.
int times_in_order(bool by_event) {
  const auto [first, second] = two_streams();
  const DeviceValues<int> one({1});
  const DeviceValues<int> between({0});
  const DeviceValues<int> result({0});
  cudaEvent_t event = nullptr;
  require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  int times = 0;
  for (int i = 0; i < 50; ++i) {
    between.set({0});
    require(cudaMemcpyAsync(between.data(), one.data(), sizeof(int), cudaMemcpyDefault, first),
            "cudaMemcpyAsync");
    if (by_event) {
      require(cudaEventRecord(event, first), "cudaEventRecord");
      require(cudaStreamWaitEvent(second, event, 0), "cudaStreamWaitEvent");
    }
    require(cudaMemcpyAsync(result.data(), between.data(), sizeof(int), cudaMemcpyDefault, second),
            "cudaMemcpyAsync");
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    times += result.get().front();
  }
  require(cudaEventDestroy(event), "cudaEventDestroy");
  require(cudaStreamDestroy(first), "cudaStreamDestroy");
  require(cudaStreamDestroy(second), "cudaStreamDestroy");
  return times;
}

TEST(CudaDouble, OnlyEventsOrderTwoStreams) {
  EXPECT_EQ(times_in_order(true), 50);
  EXPECT_LT(times_in_order(false), 50);
  EXPECT_GT(times_in_order(false), 0);
}

// Since this one has the thread of the streams.
void end_in_a_new_process() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

TEST(CudaDouble, TheHostCannotTouchDeviceMemory) {
  end_in_a_new_process();
  const DeviceValues<int> values({1});
  const volatile int* const address = values.data();
  EXPECT_DEATH((void)*address, "");
}

TEST(CudaDouble, FreedMemoryIsNotThere) {
  end_in_a_new_process();
  void* memory = nullptr;
  int value = 1;
  require(cudaMalloc(&memory, sizeof value), "cudaMalloc");
  require(cudaFree(memory), "cudaFree");
  EXPECT_EXIT(
      {
        (void)cudaMemcpy(memory, &value, sizeof value, cudaMemcpyDefault);
        std::_Exit(cudaGetLastError() == cudaErrorIllegalAddress ? 7 : 0);
      },
      testing::ExitedWithCode(7), "cudaMemcpyAsync touched device memory that is not allocated");
}

// A program that does not wait for the copy changes what is copied.
TEST(CudaDouble, PinnedMemoryIsReadWhenTheStreamRuns) {
  const auto [stream, unused] = two_streams();
  void* memory = nullptr;
  require(cudaHostAlloc(&memory, sizeof(int), cudaHostAllocDefault), "cudaHostAlloc");
  int* const pinned = static_cast<int*>(memory);
  const DeviceValues<int> copied({0});
  int times_changed = 0;
  for (int i = 0; i < 50; ++i) {
    *pinned = 1;
    require(cudaMemcpyAsync(copied.data(), pinned, sizeof(int), cudaMemcpyHostToDevice, stream),
            "cudaMemcpyAsync");
    *pinned = 2;
    require(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    times_changed += copied.get().front() == 2 ? 1 : 0;
  }
  EXPECT_GT(times_changed, 0);
  require(cudaFreeHost(memory), "cudaFreeHost");
  require(cudaStreamDestroy(stream), "cudaStreamDestroy");
  require(cudaStreamDestroy(unused), "cudaStreamDestroy");
}

}  // namespace
}  // namespace doubles
