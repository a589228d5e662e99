// CUDA tensors on gloo and the program's streams: work is ordered after the caller's stream, an asynchronous
// call does not wait for it, and after wait() the caller's stream has the result.

#include <atomic>
#include <vector>

#include "runtime/staging/staged_call.h"
#include "runtime/staging/staged_parts.h"
#include "tests/runtime/cuda/device_streams.h"

namespace dlaunch::test {
namespace {

TEST(StagedStreams, WorkIsOrderedAfterTheCallersStreamAndBeforeWhatFollowsWait) {
  const auto results = run_ranks(2, [](int rank) {
    return between_copies(rank, "gloo", [](const Tensor& tensor) {
      default_group().all_reduce(tensor, ReduceOp::sum, async()).wait();
    });
  });
  expect_all_say(results, "ordered");
}

TEST(StagedStreams, ASynchronousCallIsOrderedInTheSameWay) {
  const auto results = run_ranks(2, [](int rank) {
    return between_copies(rank, "gloo", [](const Tensor& tensor) { all_reduce(tensor); });
  });
  expect_all_say(results, "ordered");
}

// The stream of the program that polls: it waits for the copy back as soon as that has been started.
TEST(StagedStreams, ACompletedWorkIsOrderedBeforeTheStreamThatAsked) {
  const auto results = run_ranks(2, [](int rank) {
    return between_copies(rank, "gloo", [](const Tensor& tensor) {
      const Work work = default_group().all_reduce(tensor, ReduceOp::sum, async());
      while (!work.is_completed()) std::this_thread::yield();
    });
  });
  expect_all_say(results, "ordered");
}

// A receive overwrites what the program's earlier work still reads.
TEST(StagedStreams, AReceiveWaitsForTheReadersOfItsTensor) {
  const auto results = run_ranks(2, [](int rank) {
    init(rank, std::chrono::seconds(30), "gloo");
    const cudaStream_t mine = make_stream();
    const StreamGuard guard({mine}, device_of(rank));
    const Floats values(std::vector<float>(1));
    const Floats seen(std::vector<float>(1));
    for (int i = 0; i < repeats; ++i) {
      const float before = rank == 0 ? 5.0F : 7.0F;
      values.set({before});
      Gate gate;
      if (rank == 1) gate.hold(mine);
      copy(mine, seen, values);
      Work work = rank == 0 ? isend(values.tensor(), 1) : irecv(values.tensor(), 0);
      monitored_barrier();  // the message may be there
      gate.open();
      work.wait();
      require(cudaStreamSynchronize(mine), "cudaStreamSynchronize");
      if (seen.get().front() != before || values.get().front() != 5.0F)
        return "round " + std::to_string(i) + ": " + text_of(seen.get()) + " " + text_of(values.get());
    }
    return std::string("ordered");
  });
  expect_all_say(results, "ordered");
}

TEST(StagedStreams, AnAsynchronousCallDoesNotWaitForTheStream) {
  const auto results = run_ranks(2, [](int rank) {
    init(rank, std::chrono::seconds(30), "gloo");
    Gate gate;
    const cudaStream_t mine = make_stream();
    const StreamGuard guard({mine}, device_of(rank));
    const Floats values({1.0F});
    gate.hold(mine);
    const Work work = default_group().all_reduce(values.tensor(), ReduceOp::sum, async());
    std::atomic<bool> has_ended = false;
    work.then([&](const Work&) { has_ended = true; });
    std::string said = work.is_completed() || has_ended ? "completed" : "running";
    gate.open();
    work.wait();
    work.synchronize();
    said += has_ended && work.has_ended() && work.is_success() ? ", ended" : ", still running";
    return said + " " + text_of(values.get());
  });
  expect_all_say(results, "running, ended 2");
}

// The first one's parts do not come behind the copies of the second one, which wait for another stream.
TEST(StagedStreams, ALongCallDoesNotWaitForTheStreamOfTheNextOne) {
  const auto results = run_ranks(2, [](int rank) {
    init(rank, std::chrono::seconds(30), "gloo");
    const cudaStream_t mine = make_stream();
    const cudaStream_t held = make_stream();
    const Floats long_values(std::vector<float>(
        (internal::StagedCall::parts_at_once + 2) * internal::staged_part_bytes / sizeof(float), 1.0F));
    const Floats values({2.0F});
    Gate gate;
    gate.hold(held);
    const auto start = [&](cudaStream_t stream, const Floats& in) {
      const StreamGuard guard({stream}, device_of(rank));
      return default_group().all_reduce(in.tensor(), ReduceOp::sum, async());
    };
    const Work first = start(mine, long_values);
    const Work second = start(held, values);
    first.synchronize();
    const std::string said = second.has_ended() ? "both ended" : "the first one ended";
    gate.open();
    second.synchronize();
    return said + ": " + text_of(std::vector<float>{long_values.get().back(), values.get().front()});
  });
  expect_all_say(results, "the first one ended: 2 4");
}

// Each works on the result of the one before, and host memory is used again all the time.
TEST(StagedStreams, AsynchronousCallsRunInOrder) {
  const auto results = run_ranks(3, [](int rank) {
    init(rank, std::chrono::seconds(30), "gloo");
    const cudaStream_t mine = make_stream();
    const StreamGuard guard({mine}, device_of(rank));
    const Floats values(std::vector<float>(300, 1.0F));
    std::vector<Work> works;
    for (int i = 0; i < 8; ++i) {
      works.push_back(default_group().all_reduce(values.tensor(), ReduceOp::sum, async()));
      works.back().wait();
    }
    require(cudaStreamSynchronize(mine), "cudaStreamSynchronize");
    return text_of(std::vector<float>{values.get().front(), values.get().back()});
  });
  expect_all_say(results, "6561 6561");
}

// The second call could take the pinned memory of the first one, whose copy back has only been started.
TEST(StagedStreams, PinnedMemoryIsInUseUntilItsCopyBackHasRun) {
  const auto results = run_ranks(2, [](int rank) {
    init(rank, std::chrono::seconds(30), "gloo");
    const cudaStream_t mine = make_stream();
    const cudaStream_t others = make_stream();
    constexpr std::size_t length = 1000;
    const std::vector<float> ones(length, 1.0F);
    const std::vector<float> tens(length, 10.0F);
    const Floats first(ones);
    const Floats second(tens);
    for (int i = 0; i < 4 * repeats; ++i) {
      first.set(ones);
      second.set(tens);
      Work sum;
      {
        const StreamGuard guard({mine}, device_of(rank));
        sum = default_group().all_reduce(first.tensor(), ReduceOp::sum, async());
        while (!sum.is_completed()) std::this_thread::yield();
      }
      const StreamGuard guard({others}, device_of(rank));
      default_group().all_reduce(second.tensor(), ReduceOp::sum, async()).synchronize();
      sum.synchronize();
      if (first.get() != std::vector<float>(length, 2.0F) ||
          second.get() != std::vector<float>(length, 20.0F))
        return "round " + std::to_string(i) + " is wrong";
    }
    return std::string("right");
  });
  expect_all_say(results, "right");
}

// Many tensors on their way at once, each with pinned memory of its own until its copy back has run.
TEST(StagedStreams, ManyCallsShareThePinnedMemory) {
  const auto results = run_ranks(2, [](int rank) {
    init(rank, std::chrono::seconds(30), "gloo");
    const cudaStream_t mine = make_stream();
    const StreamGuard guard({mine}, device_of(rank));
    constexpr std::size_t count = 40;
    constexpr std::size_t length = 2000;
    const Floats values(std::vector<float>(count * length));
    std::vector<float> wanted;
    std::vector<float> own;
    for (std::size_t i = 0; i < count * length; ++i) {
      own.push_back(static_cast<float>(i / length + 1));
      wanted.push_back(2.0F * own.back());
    }
    for (int round = 0; round < 5; ++round) {
      values.set(own);
      std::vector<Work> works;
      for (const Tensor& part : values.cut(count))
        works.push_back(default_group().all_reduce(part, ReduceOp::sum, async()));
      for (const Work& work : works) work.wait();
      require(cudaStreamSynchronize(mine), "cudaStreamSynchronize");
      if (values.get() != wanted) return "round " + std::to_string(round) + " is wrong";
    }
    return std::string("right");
  });
  expect_all_say(results, "right");
}

}  // namespace
}  // namespace dlaunch::test
