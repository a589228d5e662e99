// What becomes of a group of the backend nccl when an operation fails, is late, or a rank is lost.

#include <csignal>

#include "tests/runtime/cuda/device_ranks.h"

namespace dlaunch::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// A deadline: another rank's end has to arrive by itself.
constexpr auto not_in_this_test = minutes(10);

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void reduce_on_device(const Floats& values) {
  OperationOptions async;
  async.async_op = true;
  default_group().all_reduce(values.tensor(), ReduceOp::sum, async).synchronize();
}

// The communicators are there, but nothing has connected them.
void init_connected(int rank, std::chrono::milliseconds timeout) {
  require(cudaSetDevice(device_of(rank)), "cudaSetDevice");
  init_process_group({.backend = "nccl", .timeout = timeout, .device_id = device_of(rank)});
  monitored_barrier();
}

// The first operation, which connects the ranks; it has ended on all of them.
void connect(const Floats& values) {
  reduce_on_device(values);
  monitored_barrier();
}

std::string reduction(const Floats& values) {
  try {
    reduce_on_device(values);
    return "success";
  } catch (const DistError& e) {
    return e.what();
  }
}

// What the operation after the first one throws.
std::string second_reduction(const Floats& values) {
  connect(values);
  return reduction(values);
}

// After the end of the one before.
std::string sum_in_a_new_group(int rank, const Floats& values) {
  destroy_process_group();
  init(rank);
  values.set({1.0F});
  all_reduce(values.tensor());
  std::string sum = text_of(values.get());
  destroy_process_group();
  return sum;
}

TEST(NcclFailures, AnErrorOfNcclEndsTheGroupOnAllRanksAndANewOneWorks) {
  SKIP_ON_GPUS("the double fails when it is told to");
  const auto results = run_processes(2, [](int rank) {
    setenv("NCCL_DOUBLE_FAULTS", "1:2:error", 1);
    init(rank, not_in_this_test);
    const Floats values({1.0F});
    std::string said = second_reduction(values);
    said += "|" + thrown_by([&] { all_reduce(values.tensor()); });
    return said + "|" + sum_in_a_new_group(rank, values);
  });
  EXPECT_TRUE(contains(results[1].said, "rank 1, all_reduce #2 of group default: NCCL reports an error"))
      << results[1].said;
  EXPECT_TRUE(contains(results[1].said,
                       "remote process exited or there was a network error (the double was told to fail); "
                       "with NCCL_DEBUG=INFO"))
      << results[1].said;
  EXPECT_TRUE(contains(results[0].said, "rank 0, all_reduce #2 of group default")) << results[0].said;
  EXPECT_TRUE(contains(results[0].said, "it gave up: ")) << results[0].said;
  for (const RankResult& result : results) {
    EXPECT_TRUE(contains(result.said, "|the group is broken: ")) << result.said;
    EXPECT_TRUE(result.said.ends_with("|2")) << result.said;
  }
}

TEST(NcclFailures, ARankThatDoesNotComeIsNamed) {
  const auto results = run_processes(2, [](int rank) {
    init(rank);
    const Floats values({1.0F});
    connect(values);
    if (rank == 1) return thrown_by([] { monitored_barrier(); });  // not the call of rank 0
    default_group().set_timeout(seconds(1));
    return reduction(values);
  });
  EXPECT_TRUE(contains(results[0].said, "rank 0, all_reduce #2 of group default, peer 1")) << results[0].said;
  EXPECT_TRUE(contains(results[0].said, "not all ranks came before the deadline; missing: rank 1 of 2"))
      << results[0].said;
}

TEST(NcclFailures, ARankThatDoesNotConnectIsNamed) {
  const auto results = run_processes(3, [](int rank) {
    init(rank);
    const Floats values({1.0F});
    monitored_barrier();
    if (rank == 2) return thrown_by([] { monitored_barrier(); });
    default_group().set_timeout(seconds(2));
    return reduction(values);
  });
  for (const std::size_t rank : {0U, 1U}) {
    EXPECT_TRUE(
        contains(results[rank].said, "rank 2 did not come to the NCCL communicator before the deadline"))
        << results[rank].said;
  }
}

TEST(NcclFailures, ADeadRankIsNamed) {
  SKIP_ON_GPUS("the double fails when it is told to");
  const auto results = run_processes(3, [](int rank) {
    setenv("NCCL_DOUBLE_FAULTS", "1:2:crash", 1);
    init(rank, not_in_this_test);
    return second_reduction(Floats({1.0F}));
  });
  EXPECT_TRUE(contains(results[0].said, "peer 1")) << results[0].said;
  EXPECT_TRUE(contains(results[0].said, "it died")) << results[0].said;
  EXPECT_TRUE(contains(results[2].said, "peer 1")) << results[2].said;
}

TEST(NcclFailures, AnAbortThatHangsIsGivenUp) {
  SKIP_ON_GPUS("the double fails when it is told to");
  const auto results = run_processes(2, [](int rank) {
    setenv("NCCL_DOUBLE_FAULTS", "0:2:hang_abort", 1);
    init(rank);
    const Floats& values = *new Floats({1.0F});  // cudaFree would wait for what was not aborted
    connect(values);
    if (rank == 0) default_group().set_timeout(seconds(1));
    return reduction(values);
  });
  EXPECT_TRUE(
      contains(results[0].said, "NCCL did not end the communicator within 3 s: its kernels may still run"))
      << results[0].said;
  EXPECT_TRUE(contains(results[1].said, "rank 1, all_reduce #2 of group default, peer 0")) << results[1].said;
}

TEST(NcclFailures, AbortEndsWhatOtherRanksWaitFor) {
  const auto results = run_processes(2, [](int rank) {
    init(rank, not_in_this_test);
    const Floats values({1.0F});
    if (rank == 1) return second_reduction(values);
    connect(values);
    abort_process_group("the loss is not a number");
    return thrown_by([&] { all_reduce(values.tensor()); });
  });
  EXPECT_TRUE(contains(results[0].said, "aborted: the loss is not a number")) << results[0].said;
  EXPECT_TRUE(
      contains(results[1].said, "it gave up: rank 0, group default: aborted: the loss is not a number"))
      << results[1].said;
}

// The first collective connects the ranks: its call returns when all have come.
TEST(NcclFailures, ARankThatDoesNotComeToTheFirstCollectiveIsNamed) {
  const auto results = run_processes(3, [](int rank) {
    init_connected(rank, not_in_this_test);
    const Floats values({1.0F});
    if (rank == 2) return thrown_by([] { monitored_barrier(); });
    default_group().set_timeout(seconds(1));
    return reduction(values);
  });
  for (const std::size_t rank : {0U, 1U}) {
    EXPECT_TRUE(contains(results[rank].said, "all_reduce #1 of group default, peer 2")) << results[rank].said;
    EXPECT_TRUE(contains(results[rank].said, "missing: rank 2 of 3")) << results[rank].said;
  }
}

TEST(NcclFailures, ADeathEndsACallThatWaitsInsideNccl) {
  const auto results = run_processes(3, [](int rank) {
    init_connected(rank, not_in_this_test);
    const Floats values({1.0F});
    if (rank == 2) (void)raise(SIGKILL);
    return reduction(values);
  });
  for (const std::size_t rank : {0U, 1U}) {
    EXPECT_TRUE(contains(results[rank].said, "peer 2")) << results[rank].said;
    EXPECT_TRUE(contains(results[rank].said, "it died")) << results[rank].said;
  }
}

std::string interrupted(int rank) {
  setenv("NCCL_DOUBLE_FAULTS", "0:2:stuck", 1);
  init(rank, not_in_this_test);
  const Floats values({1.0F});
  connect(values);
  if (rank == 0) default_group().set_timeout(seconds(1));
  const std::string said = reduction(values);
  return said + "|" + sum_in_a_new_group(rank, values);
}

void expect_interrupted(const std::vector<RankResult>& results) {
  EXPECT_TRUE(contains(results[0].said,
                       "rank 0, all_reduce #2 of group default: the call of NCCL has not returned before"))
      << results[0].said;
  EXPECT_TRUE(contains(results[1].said, "it gave up: rank 0, all_reduce #2")) << results[1].said;
  for (const RankResult& result : results) EXPECT_TRUE(result.said.ends_with("|2")) << result.said;
}

TEST(NcclFailures, ACallThatDoesNotReturnIsInterruptedAndANewGroupWorks) {
  SKIP_ON_GPUS("the double fails when it is told to");
  expect_interrupted(run_processes(2, interrupted));
}

TEST(NcclFailures, AnNcclThatCannotRevokeIsAborted) {
  SKIP_ON_GPUS("the double fails when it is told to");
  expect_interrupted(run_processes(2, [](int rank) {
    setenv("NCCL_DOUBLE_CANNOT_REVOKE", "1", 1);
    return interrupted(rank);
  }));
}

// Freeing the tensor's memory waits for the kernel.
TEST(NcclFailures, AnAbortEndsACallThatIsAboutToStartAnOperation) {
  const auto results = run_processes(2, [](int rank) {
    setenv("NCCL_DOUBLE_FAULTS", "1:2:slow", 1);
    init(rank, not_in_this_test);
    const Floats values({1.0F});
    connect(values);
    if (rank == 1) return reduction(values);
    abort_process_group("the loss is not a number");
    return std::string("aborted");
  });
  EXPECT_EQ(results[0].said, "aborted");
  EXPECT_TRUE(contains(results[1].said, "aborted: the loss is not a number")) << results[1].said;
  EXPECT_EQ(results[1].status, 0);
}

TEST(NcclFailures, ALateStartOfTheGpuIsNoFailure) {
  SKIP_ON_GPUS("the double fails when it is told to");
  const auto results = run_processes(2, [](int rank) {
    setenv("NCCL_DOUBLE_FAULTS", "0:2:late", 1);
    init(rank);
    const std::string said = second_reduction(Floats({1.0F}));
    destroy_process_group();
    return said;
  });
  expect_all_say(results, "success");
}

// Rank 1 dies, and rank 0 makes no call that could throw: it waits for a signal.
std::string wait_for_the_end(int rank) {
  init(rank, not_in_this_test);
  const Floats values({1.0F});
  connect(values);
  if (rank == 1) kill(getpid(), SIGKILL);
  all_reduce(values.tensor());
  for (;;) pause();
}

TEST(NcclFailures, AFailureEndsTheProcessIfTheEnvironmentSaysSo) {
  for (const char* const value : {"1", "3"}) {
    const auto results = run_processes(2, [value](int rank) {
      setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", value, 1);
      return wait_for_the_end(rank);
    });
    EXPECT_TRUE(WIFSIGNALED(results[0].status) && WTERMSIG(results[0].status) == SIGABRT)
        << results[0].status;
  }
}

// Not one that the program has asked for, and not if it waits on the host.
TEST(NcclFailures, ThatEndsNoProcessThatKnowsOfIt) {
  const auto results = run_processes(2, [](int rank) {
    setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", 1);
    if (rank == 1) {
      init(rank, not_in_this_test);
      connect(Floats({1.0F}));
      kill(getpid(), SIGKILL);
    }
    setenv("TORCH_NCCL_BLOCKING_WAIT", "1", 1);
    init(rank, not_in_this_test);
    const std::string said = second_reduction(Floats({1.0F}));
    destroy_process_group();
    unsetenv("TORCH_NCCL_BLOCKING_WAIT");
    return said;
  });
  EXPECT_TRUE(contains(results[0].said, "it died")) << results[0].said;
  const auto aborted = run_processes(1, [](int rank) {
    setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", 1);
    init(rank);
    const Floats values({1.0F});
    connect(values);
    abort_process_group("enough");
    return sum_in_a_new_group(rank, values);
  });
  expect_all_say(aborted, "1");
}

// Nobody waited for it on the host.
TEST(NcclFailures, AFailureThatNobodySawIsTheNextCallsError) {
  SKIP_ON_GPUS("the double fails when it is told to");
  const auto results = run_processes(2, [](int rank) {
    setenv("NCCL_DOUBLE_FAULTS", "0:2:error,1:2:error", 1);
    init(rank);
    const Floats values({1.0F});
    connect(values);
    const std::string said = thrown_by([&] {
      for (;;) all_reduce(values.tensor());
    });
    return contains(said, "NCCL reports an error") || contains(said, "ncclGroupEnd failed") ||
                   contains(said, "it gave up")
               ? std::string("reported")
               : said;
  });
  expect_all_say(results, "reported");
}

}  // namespace
}  // namespace dlaunch::test
