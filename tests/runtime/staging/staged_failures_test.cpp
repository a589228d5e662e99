// What becomes of a group of gloo with CUDA tensors when an operation fails, is late, or a rank is lost.

#include <csignal>
#include <vector>

#include "tests/runtime/cuda/device_streams.h"

namespace dlaunch::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// A deadline: another rank's end has to arrive by itself.
constexpr auto not_in_this_test = minutes(10);

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
    return "success";
  } catch (const DistError& e) {
    return e.what();
  }
}

void reduce_async(const Floats& values) {
  default_group().all_reduce(values.tensor(), ReduceOp::sum, async()).synchronize();
}

// The rank that waits has started, also on host memory; the other one is dead.
TEST(StagedFailures, ADeadRankIsNamed) {
  const auto results = run_processes(3, [](int rank) {
    init(rank, not_in_this_test, "gloo");
    const Floats values({1.0F});
    all_reduce(values.tensor());
    if (rank == 1) raise(SIGKILL);
    if (rank == 0) return error_of([&] { reduce_async(values); });
    return error_of([&] { all_reduce(values.tensor()); });
  });
  for (const std::size_t rank : {0U, 2U}) {
    EXPECT_TRUE(contains(results[rank].said, "all_reduce #2 of group default, peer 1")) << results[rank].said;
    EXPECT_TRUE(contains(results[rank].said, "it died")) << results[rank].said;
  }
}

TEST(StagedFailures, ARankThatDoesNotComeIsNamed) {
  const auto results = run_processes(2, [](int rank) {
    init(rank, seconds(30), "gloo");
    const Floats values({1.0F});
    all_reduce(values.tensor());
    if (rank == 1) return thrown_by([] { monitored_barrier(); });  // not the call of rank 0
    default_group().set_timeout(seconds(1));
    return error_of([&] { reduce_async(values); });
  });
  EXPECT_TRUE(contains(results[0].said, "rank 0, all_reduce #2 of group default, peer 1")) << results[0].said;
  EXPECT_TRUE(contains(results[0].said, "missing: rank 1 of 2")) << results[0].said;
}

// What the program has started before on its stream does not end.
TEST(StagedFailures, ADeviceThatIsLateIsNamed) {
  const auto results = run_processes(2, [](int rank) {
    init(rank, not_in_this_test, "gloo");
    const Floats& values = *new Floats({1.0F});  // cudaFree would wait for the device
    Gate& gate = *new Gate;
    all_reduce(values.tensor());
    if (rank == 1) return error_of([&] { reduce_async(values); });
    gate.hold(nullptr);
    default_group().set_timeout(seconds(1));
    return error_of([&] { reduce_async(values); });
  });
  EXPECT_TRUE(
      contains(results[0].said,
               "rank 0, all_reduce #2 of group default: the copy to the host has not ended before the "
               "deadline: cuda:0 still works on what was started before it"))
      << results[0].said;
  EXPECT_TRUE(contains(results[1].said, "rank 1, all_reduce #2 of group default, peer 0")) << results[1].said;
  EXPECT_TRUE(contains(results[1].said, "it gave up: ")) << results[1].said;
}

// The tensor's memory was freed.
TEST(StagedFailures, AnErrorOfCudaIsNamedAsSuchAndEndsTheGroup) {
  const auto results = run_processes(2, [](int rank) {
    init(rank, not_in_this_test, "gloo");
    const Floats values({1.0F});
    all_reduce(values.tensor());
    if (rank == 1) return error_of([&] { reduce_async(values); });
    void* memory = nullptr;
    require(cudaMalloc(&memory, sizeof(float)), "cudaMalloc");
    require(cudaFree(memory), "cudaFree");
    const Tensor freed = Tensor::from(static_cast<float*>(memory), {1}, {Device::Kind::cuda, 0});
    const std::string said =
        error_of([&] { default_group().all_reduce(freed, ReduceOp::sum, async()).synchronize(); });
    return said + "|" + thrown_by([&] { all_reduce(values.tensor()); });
  });
  // The first call of CUDA that is made after it reports it.
  EXPECT_TRUE(results[0].said.starts_with("rank 0, all_reduce #2 of group default: cuda")) << results[0].said;
  EXPECT_TRUE(contains(results[0].said, " failed: invalid argument|")) << results[0].said;
  EXPECT_TRUE(contains(results[0].said, "|the group is broken: ")) << results[0].said;
  EXPECT_TRUE(contains(results[1].said, "it gave up: ")) << results[1].said;
}

TEST(StagedFailures, AbortEndsRunningCallsOnAllRanksAndANewGroupWorks) {
  const auto results = run_processes(2, [](int rank) {
    init(rank, not_in_this_test, "gloo");
    Gate gate;
    const Floats values({1.0F});
    all_reduce(values.tensor());
    std::string said;
    if (rank == 0) {
      gate.hold(nullptr);
      const Work work = default_group().all_reduce(values.tensor(), ReduceOp::sum, async());
      abort_process_group("the loss is not a number");
      said = error_of([&] { work.synchronize(); });
      gate.open();
    } else {
      said = error_of([&] { reduce_async(values); });
    }
    destroy_process_group();
    init(rank, seconds(30), "gloo");
    values.set({1.0F});
    all_reduce(values.tensor());
    said += "|" + text_of(values.get());
    destroy_process_group();
    return said;
  });
  for (const RankResult& result : results) {
    EXPECT_TRUE(contains(result.said, "aborted: the loss is not a number")) << result.said;
    EXPECT_TRUE(result.said.ends_with("|2")) << result.said;
    EXPECT_EQ(result.status, 0);
  }
}

// Its pinned memory belongs to a copy that has not begun.
TEST(StagedFailures, AGroupMayBeDestroyedWhileItsDeviceIsLate) {
  const auto results = run_processes(1, [](int rank) {
    init(rank, not_in_this_test, "gloo");
    Gate gate;
    const Floats values({1.0F});
    gate.hold(nullptr);
    const Work work = default_group().all_reduce(values.tensor(), ReduceOp::sum, async());
    abort_process_group("enough");
    destroy_process_group();
    const std::string said = error_of([&] { work.synchronize(); });
    gate.open();
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return said;
  });
  EXPECT_TRUE(contains(results[0].said, "aborted: enough")) << results[0].said;
}

TEST(StagedFailures, AProcessMayEndWithARunningCall) {
  const auto results = run_processes(2, [](int rank) {
    init(rank, not_in_this_test, "gloo");
    // They outlive the call, and are no leak.
    static const Floats& values = *new Floats({1.0F});
    all_reduce(values.tensor());
    if (rank == 0) return error_of([&] { reduce_async(values); });
    static Gate& gate = *new Gate;
    gate.hold(nullptr);
    (void)default_group().all_reduce(values.tensor(), ReduceOp::sum, async());
    std::exit(0);
  });
  EXPECT_TRUE(contains(results[0].said, "rank 0, all_reduce #2 of group default, peer 1")) << results[0].said;
  EXPECT_EQ(results[1].status, 0);
}

}  // namespace
}  // namespace dlaunch::test
