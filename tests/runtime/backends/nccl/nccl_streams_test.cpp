// Streams, as torch.distributed documents them: work is ordered after the caller's stream, and wait() makes
// the caller's stream wait, not the host.

#include <dlaunch/stream.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "tests/runtime/backends/nccl/nccl_ranks.h"

namespace dlaunch::test {
namespace {

// Holds a stream up, as a slow kernel does, until it is opened.
class Gate {
 public:
  void hold(cudaStream_t stream) {
    require(cudaLaunchHostFunc(
                stream, [](void* self) { static_cast<Gate*>(self)->pass(); }, this),
            "cudaLaunchHostFunc");
  }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

 private:
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_open_; });
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), "cudaStreamCreateWithPriority");
  return stream;
}

void copy(cudaStream_t stream, const Floats& to, const Floats& from) {
  require(cudaMemcpyAsync(to.data(), from.data(), to.tensor().nbytes(), cudaMemcpyDefault, stream),
          "cudaMemcpyAsync");
}

OperationOptions async() {
  OperationOptions options;
  options.async_op = true;
  return options;
}

// As often as it takes for an order that happens by chance to go wrong.
constexpr int repeats = 30;

// What a reduction between two copies of the program's own stream gives; `reduce` makes one.
template <class Reduce>
std::string between_copies(int rank, const Reduce& reduce) {
  init(rank);
  const cudaStream_t mine = make_stream();
  const StreamGuard guard({mine}, rank);
  const Floats source({1.0F});
  const Floats values(std::vector<float>(1));
  const Floats result(std::vector<float>(1));
  for (int i = 0; i < repeats; ++i) {
    values.set({-1.0F});
    result.set({-2.0F});
    copy(mine, values, source);
    reduce(values.tensor());
    copy(mine, result, values);
    require(cudaStreamSynchronize(mine), "cudaStreamSynchronize");
    if (text_of(result.get()) != "2") return "round " + std::to_string(i) + ": " + text_of(result.get());
  }
  return "ordered";
}

TEST(NcclStreams, WorkIsOrderedAfterTheCallersStreamAndBeforeWhatFollowsWait) {
  const auto results = run_ranks(2, [](int rank) {
    return between_copies(rank, [](const Tensor& tensor) {
      default_group().all_reduce(tensor, ReduceOp::sum, async()).wait();
    });
  });
  expect_all_say(results, "ordered");
}

TEST(NcclStreams, ASynchronousCallIsOrderedInTheSameWay) {
  const auto results = run_ranks(
      2, [](int rank) { return between_copies(rank, [](const Tensor& tensor) { all_reduce(tensor); }); });
  expect_all_say(results, "ordered");
}

TEST(NcclStreams, WaitDoesNotBlockTheHostAndSynchronizeDoes) {
  const auto results = run_ranks(1, [](int rank) {
    init(rank);
    Gate gate;
    const cudaStream_t mine = make_stream();
    const StreamGuard guard({mine}, rank);
    const Floats values({1.0F});
    gate.hold(mine);
    const Work work = default_group().all_reduce(values.tensor(), ReduceOp::sum, async());
    std::atomic<bool> has_ended = false;
    work.then([&](const Work&) { has_ended = true; });
    work.wait();
    std::string said = work.is_completed() && work.is_success() ? "ordered" : "not ordered";
    said += has_ended || work.has_ended() ? ", ended" : ", still running";
    const bool in_time = thrown_by([&] { work.wait(std::chrono::milliseconds(20)); }).empty();
    said += in_time ? ", ended" : ", still running";
    gate.open();
    work.synchronize();
    said += has_ended && work.has_ended() ? ", ended" : ", still running";
    return said;
  });
  expect_all_say(results, "ordered, still running, still running, ended");
}

TEST(NcclStreams, WithBlockingWaitTheHostWaits) {
  const auto results = run_ranks(2, [](int rank) {
    setenv("TORCH_NCCL_BLOCKING_WAIT", "1", 1);
    init(rank);
    const Floats values({1.0F});
    const Work work = default_group().all_reduce(values.tensor(), ReduceOp::sum, async());
    work.wait();
    return std::string(work.has_ended() ? "ended" : "running") + " " + text_of(values.get());
  });
  expect_all_say(results, "ended 2");
}

TEST(NcclStreams, BarrierWaitsOnTheHost) {
  const auto results = run_ranks(2, [](int rank) {
    init(rank);
    const Floats values({1.0F});
    const Work before = default_group().all_reduce(values.tensor(), ReduceOp::sum, async());
    barrier();
    return std::string(before.has_ended() ? "ended" : "running");
  });
  expect_all_say(results, "ended");
}

TEST(CurrentStream, IsOfAThreadAndADevice) {
  int first = 0;
  EXPECT_EQ(current_stream(3), Stream());
  {
    const StreamGuard guard({&first}, 3);
    EXPECT_EQ(current_stream(3).handle, &first);
    EXPECT_EQ(current_stream(2), Stream());
    std::thread([] { EXPECT_EQ(current_stream(3), Stream()); }).join();
  }
  EXPECT_EQ(current_stream(3), Stream());
  EXPECT_EQ(thrown_by([] { (void)current_stream(-1); }), "there is no CUDA device -1");
}

}  // namespace
}  // namespace dlaunch::test
