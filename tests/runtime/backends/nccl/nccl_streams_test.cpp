// Streams, as torch.distributed documents them: work is ordered after the caller's stream, and wait() makes
// the caller's stream wait, not the host.

#include <atomic>

#include "tests/runtime/cuda/device_streams.h"

namespace dlaunch::test {
namespace {

TEST(NcclStreams, WorkIsOrderedAfterTheCallersStreamAndBeforeWhatFollowsWait) {
  const auto results = run_ranks(2, [](int rank) {
    return between_copies(rank, "nccl", [](const Tensor& tensor) {
      default_group().all_reduce(tensor, ReduceOp::sum, async()).wait();
    });
  });
  expect_all_say(results, "ordered");
}

TEST(NcclStreams, ASynchronousCallIsOrderedInTheSameWay) {
  const auto results = run_ranks(2, [](int rank) {
    return between_copies(rank, "nccl", [](const Tensor& tensor) { all_reduce(tensor); });
  });
  expect_all_say(results, "ordered");
}

TEST(NcclStreams, WaitDoesNotBlockTheHostAndSynchronizeDoes) {
  const auto results = run_ranks(1, [](int rank) {
    init(rank);
    barrier();  // to connect waits for the device
    Gate gate;
    const cudaStream_t mine = make_stream();
    const StreamGuard guard({mine}, device_of(rank));
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

// Communication overlaps with what the program computes.
TEST(NcclStreams, AnAsynchronousOperationEndsWhileTheCallersStreamIsBusy) {
  const auto results = run_ranks(2, [](int rank) {
    init(rank);
    barrier();
    Gate gate;
    const cudaStream_t mine = make_stream();
    const StreamGuard guard({mine}, device_of(rank));
    const Floats values({1.0F});
    const Floats later({5.0F});
    const Work work = default_group().all_reduce(values.tensor(), ReduceOp::sum, async());
    gate.hold(mine);
    work.synchronize();
    const Work behind = default_group().all_reduce(later.tensor(), ReduceOp::sum, async());
    const bool in_time = thrown_by([&] { behind.wait(std::chrono::milliseconds(20)); }).empty();
    gate.open();
    behind.synchronize();
    return std::string(in_time ? "not ordered " : "ordered ") + text_of(values.get()) + " " +
           text_of(later.get());
  });
  expect_all_say(results, "ordered 2 10");
}

// One that is waited for runs in the stream of its caller, another one in the group's.
TEST(NcclStreams, CallsOnSeveralStreamsKeepTheirOrder) {
  const auto results = run_ranks(2, [](int rank) {
    init(rank);
    const cudaStream_t first = make_stream();
    const cudaStream_t second = make_stream();
    const Floats source({1.0F});
    const Floats one(std::vector<float>(1));
    const Floats two(std::vector<float>(1));
    const Floats three(std::vector<float>(1));
    for (int i = 0; i < repeats; ++i) {
      for (const Floats* const values : {&one, &two, &three}) values->set({-1.0F});
      {
        const StreamGuard guard({first}, device_of(rank));
        copy(first, one, source);
        all_reduce(one.tensor());
        copy(first, two, one);
      }
      Work work;
      {
        const StreamGuard guard({first}, device_of(rank));
        work = default_group().all_reduce(two.tensor(), ReduceOp::sum, async());
      }
      const StreamGuard guard({second}, device_of(rank));
      work.wait();
      copy(second, three, two);
      all_reduce(three.tensor());
      require(cudaStreamSynchronize(second), "cudaStreamSynchronize");
      const std::string seen = text_of(one.get()) + " " + text_of(two.get()) + " " + text_of(three.get());
      if (seen != "2 4 8") return "round " + std::to_string(i) + ": " + seen;
    }
    return std::string("ordered");
  });
  expect_all_say(results, "ordered");
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
  static int device_3 = 0;
  EXPECT_EQ(current_stream(3), Stream());
  {
    const StreamGuard guard({&first}, 3);
    EXPECT_EQ(current_stream(3).handle, &first);
    EXPECT_EQ(current_stream(2), Stream());
    std::thread([] { EXPECT_EQ(current_stream(3), Stream()); }).join();
  }
  EXPECT_EQ(current_stream(3), Stream());
  set_stream_source([](int device) { return Stream{device == 3 ? &device_3 : nullptr}; });
  EXPECT_EQ(current_stream(3).handle, &device_3);
  {
    const StreamGuard guard({}, 3);
    EXPECT_EQ(current_stream(3), Stream());
  }
  EXPECT_EQ(current_stream(3).handle, &device_3);
  set_stream_source(nullptr);
  EXPECT_EQ(current_stream(3), Stream());
  EXPECT_EQ(thrown_by([] { (void)current_stream(-1); }), "there is no CUDA device -1");
}

}  // namespace
}  // namespace dlaunch::test
