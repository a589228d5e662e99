// Which rank is named when one does not come to an operation of the gloo backend. The timeout of one rank
// ends when the others are certainly in the operation, so that the test does not depend on their speed.

#include <dlaunch/device_mesh.h>
#include <dlaunch/distributed.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/rank_processes.h"
#include "tests/runtime/shared_memory.h"

namespace {

using dlaunch::DistNetworkError;
using dlaunch::Tensor;
using dlaunch::Work;
using dlaunch::test::error_of;
using dlaunch::test::host_name;
using dlaunch::test::ProcessBarrier;
using dlaunch::test::RankResult;
using dlaunch::test::run_processes;

constexpr int late_ranks = 5;
constexpr int late = 4;
constexpr auto briefly = std::chrono::milliseconds(400);  // long enough for all that have begun to come

// One rank's part in a collective: long data, so that it takes more than one message.
class Part {
 public:
  explicit Part(std::size_t count)
      : one_(count, 1), all_(count * late_ranks, 1), others_(count * late_ranks) {
    for (int rank = 0; rank < late_ranks; ++rank) {
      const std::size_t begin = count * static_cast<std::size_t>(rank);
      from_.push_back(Tensor::of(std::span(all_).subspan(begin, count)));
      to_.push_back(Tensor::of(std::span(others_).subspan(begin, count)));
    }
  }
  Tensor one() { return Tensor::of(one_); }
  Tensor all() { return Tensor::of(all_); }
  Tensor others() { return Tensor::of(others_); }
  std::vector<Tensor>& from() { return from_; }
  std::vector<Tensor>& to() { return to_; }

 private:
  std::vector<float> one_;
  std::vector<float> all_;
  std::vector<float> others_;
  std::vector<Tensor> from_;
  std::vector<Tensor> to_;
};

using Options = dlaunch::CollectiveOptions;
struct Collective {
  const char* name;
  std::function<Work(Part& part, const Options& options)> call;
};

const std::vector<Collective> collectives = {
    {"barrier", [](Part&, const Options& options) { return dlaunch::barrier(options); }},
    {"all_reduce",
     [](Part& part, const Options& options) {
       return dlaunch::all_reduce(part.one(), dlaunch::ReduceOp::sum, options);
     }},
    {"broadcast",
     [](Part& part, const Options& options) { return dlaunch::broadcast(part.one(), late, options); }},
    {"all_gather",
     [](Part& part, const Options& options) { return dlaunch::all_gather(part.to(), part.one(), options); }},
    {"all_gather_into_tensor",
     [](Part& part, const Options& options) {
       return dlaunch::all_gather_into_tensor(part.all(), part.one(), options);
     }},
    {"scatter",
     [](Part& part, const Options& options) { return dlaunch::scatter(part.one(), {}, late, options); }},
    {"reduce_scatter",
     [](Part& part, const Options& options) {
       return dlaunch::reduce_scatter(part.one(), part.from(), dlaunch::ReduceOp::sum, options);
     }},
    {"all_to_all",
     [](Part& part, const Options& options) { return dlaunch::all_to_all(part.to(), part.from(), options); }},
    {"all_to_all_single",
     [](Part& part, const Options& options) {
       return dlaunch::all_to_all_single(part.others(), part.all(), {}, {}, options);
     }},
};

std::string told(const DistNetworkError& error) {
  return error.context().host + ", peer " + std::to_string(error.context().peer) + ": " + error.reason();
}

// The error of this rank's wait. Rank 0 begins when the others are in the operation, and its timeout ends
// first.
template <class Options, class Start>
std::string told_of(int rank, const ProcessBarrier& others_wait, Options options, const Start& start) {
  try {
    if (rank == 0) {
      others_wait.meet();
      options.timeout = briefly;
    }
    const Work work = start(options);
    if (rank != 0) others_wait.meet();
    work.wait();
  } catch (const DistNetworkError& e) {
    return told(e);
  }
  return "not noticed";
}

class ALateRank : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Gloo, ALateRank, testing::Values(4, 100000));

TEST_P(ALateRank, IsNamedByAllRanksThatWaitInACollective) {
  const std::size_t count = GetParam();
  for (const Collective& collective : collectives) {
    const ProcessBarrier others_wait(late_ranks - 1);
    const ProcessBarrier all_know(late_ranks);
    const auto results = run_processes(late_ranks, [&](int rank) -> std::string {
      dlaunch::init_process_group();
      std::string said = "not noticed";
      if (rank != late) {
        Part part(count);
        Options options;
        options.async_op = rank != 0;
        said = told_of(rank, others_wait, options,
                       [&](const Options& given) { return collective.call(part, given); });
      }
      all_know.meet();
      return said;
    });
    for (int rank = 0; rank < late; ++rank) {
      EXPECT_EQ(results[static_cast<std::size_t>(rank)].said,
                host_name() + ", peer 4: not all ranks came before the deadline; missing: rank 4 of 5")
          << collective.name << " on rank " << rank;
    }
  }
}

// It has sent its part, and continues.
TEST(LateRanks, CompletedRankIsNotNamed) {
  const ProcessBarrier others_are_through(2);
  const ProcessBarrier all_know(4);
  const auto results = run_processes(4, [&](int rank) -> std::string {
    dlaunch::init_process_group();
    std::string said;
    if (rank < 2) {
      std::vector<float> own(4);
      std::vector<std::vector<float>> places(4, own);
      std::vector<Tensor> outputs;
      for (std::vector<float>& place : places) outputs.push_back(Tensor::of(place));
      if (rank == 0) others_are_through.meet();
      Options options;
      if (rank == 0) options.timeout = briefly;
      try {
        dlaunch::gather(rank == 0 ? outputs : std::vector<Tensor>(), Tensor::of(own), 0, options);
      } catch (const DistNetworkError& e) {
        said = told(e);
      }
      if (rank == 1) others_are_through.meet();
    }
    all_know.meet();
    return said;
  });
  EXPECT_EQ(results[0].said,
            host_name() + ", peer 2: not all ranks came before the deadline; missing: ranks 2, 3 of 4");
  EXPECT_EQ(results[1].said, "");
}

// A rank that only sends its part finishes at once. Rank 1 does so several times and waits at last for the
// root, which waits in the first operation.
TEST(LateRanks, RankThatWaitsInAnEarlierOperationIsNotNamed) {
  const ProcessBarrier root_waits(2);
  const ProcessBarrier all_know(3);
  const auto results = run_processes(3, [&](int rank) -> std::string {
    dlaunch::init_process_group();
    std::vector<float> own(1000);
    std::vector<std::vector<float>> places(3, own);
    std::vector<Tensor> outputs;
    for (std::vector<float>& place : places) outputs.push_back(Tensor::of(place));
    Options options;
    options.async_op = rank == 0;
    if (rank == 1) options.timeout = briefly;
    std::string said;
    try {
      if (rank == 0) {
        const Work work = dlaunch::gather(outputs, Tensor::of(own), 0, options);
        root_waits.meet();
        work.wait();
      }
      if (rank == 1) {
        for (int i = 0; i < 5; ++i) dlaunch::gather({}, Tensor::of(own), 0);
        root_waits.meet();
        dlaunch::barrier(options);
      }
    } catch (const DistNetworkError& e) {
      said = told(e);
    }
    all_know.meet();
    return said;
  });
  const std::string missing =
      host_name() + ", peer 2: not all ranks came before the deadline; missing: rank 2 of 3";
  EXPECT_EQ(results[0].said, missing);
  EXPECT_EQ(results[1].said, missing);
}

TEST(LateRanks, SilentSenderIsNamedByAllReceivers) {
  const ProcessBarrier others_wait(late_ranks - 1);
  const ProcessBarrier all_know(late_ranks);
  const auto results = run_processes(late_ranks, [&](int rank) -> std::string {
    dlaunch::init_process_group();
    std::string said;
    if (rank != late) {
      std::vector<float> heard(4);
      said = told_of(rank, others_wait, dlaunch::PointToPointOptions(),
                     [&](const auto& given) { return dlaunch::irecv(Tensor::of(heard), late, given); });
    }
    all_know.meet();
    return said;
  });
  const std::string reason = "no message with tag 0 from it before the deadline";
  EXPECT_EQ(results[0].said, host_name() + ", peer 4: " + reason);
  for (int rank = 1; rank < late; ++rank) {
    EXPECT_EQ(results[static_cast<std::size_t>(rank)].said,
              host_name() + ", peer 4: rank 0 gave up: " + reason);
  }
}

// These wait through the store.
TEST(LateRanks, AreNamedWithTheCallThatWaitsForThem) {
  const ProcessBarrier all_know(2);
  const auto results = run_processes(2, [&](int rank) -> std::string {
    dlaunch::init_process_group();
    const dlaunch::NewGroupOptions options{.timeout = briefly};
    const std::vector<std::vector<int>> both = {{0, 1}};
    std::string said;
    const auto add = [&said](const std::function<void()>& call) { said += error_of(call) + "\n"; };
    if (rank == 0) {
      dlaunch::default_group().set_timeout(briefly);
      add([] { dlaunch::monitored_barrier(briefly); });
      add([&] { dlaunch::new_group({}, options); });
      add([&] { dlaunch::new_subgroups(2, options); });
      add([&] { dlaunch::split_group({}, both, options); });
      add([] { (void)dlaunch::init_device_mesh("cpu", {2}); });
    }
    all_know.meet();
    return said;
  });
  const std::string peer = ", peer 1 on " + host_name() + ": ";
  const std::string missing = peer + "not all ranks came before the deadline; missing: rank 1 of 2\n";
  EXPECT_EQ(results[0].said, "rank 0, monitored_barrier #1 of group default" + peer +
                                 "Rank 1 failed to pass monitoredBarrier in 400 ms\n"
                                 "rank 0, new_group #1 of group 1" +
                                 missing + "rank 0, new_subgroups #1 of group default" + missing +
                                 "rank 0, split_group #1 of group local 0, 1" + missing +
                                 "rank 0, init_device_mesh #2 of group default" + missing);
}

}  // namespace
