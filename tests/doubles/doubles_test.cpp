// The doubles do what their tests rely on: what a program has not ordered comes out wrong, and what it must
// not touch ends it.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "tests/runtime/cuda/device_values.h"

namespace doubles {
namespace {

using dlaunch::test::DeviceValues;
using dlaunch::test::require;

struct TwoStreams {
  TwoStreams() {
    for (cudaStream_t* const stream : {&first, &second}) {
      require(cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, 0), "cudaStreamCreateWithPriority");
    }
  }
  ~TwoStreams() {
    (void)cudaStreamDestroy(first);
    (void)cudaStreamDestroy(second);
  }
  TwoStreams(const TwoStreams&) = delete;
  TwoStreams& operator=(const TwoStreams&) = delete;

  cudaStream_t first = nullptr;
  cudaStream_t second = nullptr;
};

// How often of 50 times a copy in the second stream came after the one in the first.
int times_in_order(bool by_event) {
  const auto [first, second] = TwoStreams();
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
  EXPECT_EQ(cudaMemcpy(memory, &value, sizeof value, cudaMemcpyDefault), cudaErrorInvalidValue);
  EXPECT_EXIT(
      {
        (void)cudaMemsetAsync(memory, 0, sizeof value, nullptr);
        (void)cudaStreamSynchronize(nullptr);
        std::_Exit(cudaGetLastError() == cudaErrorIllegalAddress ? 7 : 0);
      },
      testing::ExitedWithCode(7), "cudaMemsetAsync touched device memory that is not allocated");
}

// What the program overwrites next may still be on its way to the device.
TEST(CudaDouble, ACopyFromPageableMemoryReturnsBeforeItsEnd) {
  const auto [stream, unused] = TwoStreams();
  const DeviceValues<int> values({0});
  const DeviceValues<int> copied({0});
  int times_late = 0;
  for (int i = 1; i <= 50; ++i) {
    require(cudaMemcpy(values.data(), &i, sizeof i, cudaMemcpyDefault), "cudaMemcpy");
    require(cudaMemcpyAsync(copied.data(), values.data(), sizeof i, cudaMemcpyDefault, stream),
            "cudaMemcpyAsync");
    require(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    times_late += copied.get().front() == i ? 0 : 1;
  }
  EXPECT_GT(times_late, 0);
}

struct EndOfGraph {
  void operator()(cudaGraph_t graph) const { (void)cudaGraphDestroy(graph); }
};
struct Captured {
  cudaError_t error = cudaSuccess;
  std::unique_ptr<CUgraph_st, EndOfGraph> graph;
};

template <class Body>
Captured capture(cudaStream_t stream, cudaStreamCaptureMode mode, const Body& body) {
  require(cudaStreamBeginCapture(stream, mode), "cudaStreamBeginCapture");
  body();
  cudaGraph_t graph = nullptr;
  const cudaError_t error = cudaStreamEndCapture(stream, &graph);
  return {error, std::unique_ptr<CUgraph_st, EndOfGraph>(graph)};
}

TEST(CudaDouble, AGraphHasWhatOtherStreamsDoWhenTheyAreJoined) {
  const TwoStreams streams;
  const cudaStream_t first = streams.first;
  const cudaStream_t second = streams.second;
  const DeviceValues<int> from({1});
  const DeviceValues<int> to({0});
  cudaEvent_t event = nullptr;
  require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  const auto fork = [&] {
    require(cudaEventRecord(event, first), "cudaEventRecord");
    require(cudaStreamWaitEvent(second, event, 0), "cudaStreamWaitEvent");
    require(cudaMemcpyAsync(to.data(), from.data(), sizeof(int), cudaMemcpyDefault, second),
            "cudaMemcpyAsync");
  };
  EXPECT_EQ(capture(first, cudaStreamCaptureModeGlobal, fork).error, cudaErrorStreamCaptureUnjoined);
  const Captured joined = capture(first, cudaStreamCaptureModeGlobal, [&] {
    fork();
    require(cudaEventRecord(event, second), "cudaEventRecord");
    EXPECT_EQ(cudaEventQuery(event), cudaErrorCapturedEvent);
    require(cudaStreamWaitEvent(first, event, 0), "cudaStreamWaitEvent");
  });
  EXPECT_EQ(joined.error, cudaSuccess);
  EXPECT_EQ(to.get().front(), 0);
  cudaGraphExec_t exec = nullptr;
  require(cudaGraphInstantiateWithFlags(&exec, joined.graph.get(), 0), "cudaGraphInstantiateWithFlags");
  for (const int value : {2, 3}) {
    from.set({value});
    require(cudaGraphLaunch(exec, first), "cudaGraphLaunch");
    require(cudaStreamSynchronize(first), "cudaStreamSynchronize");
    EXPECT_EQ(to.get().front(), value);
  }
  require(cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
  require(cudaEventDestroy(event), "cudaEventDestroy");
}

TEST(CudaDouble, ACallThatACaptureForbidsInvalidatesIt) {
  const auto [stream, unused] = TwoStreams();
  void* memory = nullptr;
  const auto allocate = [&] { (void)cudaMalloc(&memory, 1); };
  EXPECT_EQ(capture(stream, cudaStreamCaptureModeGlobal, allocate).error, cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(capture(stream, cudaStreamCaptureModeRelaxed, allocate).error, cudaSuccess);
  const auto in_other_thread = [&] { std::thread(allocate).join(); };
  EXPECT_EQ(capture(stream, cudaStreamCaptureModeGlobal, in_other_thread).error,
            cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(capture(stream, cudaStreamCaptureModeThreadLocal, in_other_thread).error, cudaSuccess);
}

// A program that does not wait for the copy changes what is copied.
TEST(CudaDouble, PinnedMemoryIsReadWhenTheStreamRuns) {
  const auto [stream, unused] = TwoStreams();
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
}

}  // namespace
}  // namespace doubles
