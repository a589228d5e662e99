// What goes wrong is named: the call, the parameter, the rank.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "dlaunch/data_parallel.h"
#include "dlaunch/debug.h"
#include "dlaunch/distributed.h"
#include "tests/runtime/data_parallel/reduced_model.h"
#include "tests/runtime/group/thread_groups.h"
#include "tests/runtime/group/thread_worlds.h"

namespace dlaunch::internal {
namespace {

using test::contains;
using test::error_of;
using test::floats;
using test::in_groups;
using test::ReducedModel;

void expect_error(const std::function<void()>& call, const std::string& part) {
  const std::string error = error_of(call);
  EXPECT_TRUE(contains(error, part)) << error;
}

TEST(ReducerErrors, AGradientMarkedTwiceIsNamed) {
  test::expect_success(in_groups(2, [&](const ProcessGroup& group) {
    ReducedModel model({1, 1});
    GradientReducer reducer(model.parameters(), {}, group);
    reducer.begin_step();
    reducer.mark_ready(1);
    for (int i = 0; i < 2; ++i) {
      expect_error(
          [&] { reducer.mark_ready(1); },
          "rank " + std::to_string(group.rank()) +
              ", mark_ready of group test: parameter 1 (layer1) is marked a second time in step 1; ");
    }
    reducer.mark_ready(0);  // the step goes on
    reducer.finish_step();
    expect_error([&] { reducer.mark_ready(0); }, "no step has begun: call begin_step first");
  }));
}

TEST(ReducerErrors, WrongCallsChangeNothing) {
  test::expect_success(in_groups(1, [&](const ProcessGroup& group) {
    ReducedModel model({2, 1});
    GradientReducer reducer(model.parameters(), {}, group);
    expect_error([&] { reducer.mark_ready(0); }, "no step has begun");
    expect_error([&] { reducer.finish_step(); }, "finish_step of group test: no step has begun");
    expect_error([&] { static_cast<void>(reducer.gradient(2)); },
                 "gradient of group test: there is no parameter 2: the reducer has 2");
    expect_error([&] { static_cast<void>(reducer.used(7)); }, "there is no parameter 7");
    reducer.begin_step();
    expect_error([&] { reducer.begin_step(); }, "step 1 has not finished: call finish_step first");
    expect_error([&] { reducer.mark_ready(2); }, "there is no parameter 2");
    expect_error([&] { reducer.mark_unused(0); }, "made without find_unused_parameters");
    expect_error([&] { reducer.register_comm_hook(allreduce_hook); }, "call it between two steps");
    std::vector<double> doubles(2);
    std::vector<float> longer(3);
    const std::vector<float> constant(2);
    for (const Tensor& wrong : {Tensor::of(doubles), Tensor::of(longer), Tensor::of(constant)})
      expect_error([&] { reducer.mark_ready(0, wrong); },
                   "the gradient of parameter 0 (layer0) is " + wrong.to_string());
    reducer.zero_gradients();
    reducer.mark_ready(0);
    expect_error([&] { reducer.zero_gradients(); }, "call it before the first mark_ready");
    reducer.mark_ready(1);
    reducer.finish_step();
    EXPECT_EQ(reducer.statistics().steps, 1U);
  }));
}

TEST(ReducerErrors, WrongArgumentsOfTheConstructorAreNamed) {
  test::expect_success(in_groups(1, [&](const ProcessGroup& group) {
    const auto make = [&](std::vector<Parameter> parameters, ReducerOptions options = {}) {
      return error_of(
          [&] { const GradientReducer reducer(std::move(parameters), std::move(options), group); });
    };
    std::vector<float> values(2);
    const std::vector<float> constant(2);
    std::vector<char> flags(2);
    const Parameter flag{"flag", Tensor(flags.data(), DType::boolean, std::array{std::int64_t{2}})};
    EXPECT_TRUE(contains(make({}), "GradientReducer of group test: there are no parameters"));
    EXPECT_TRUE(contains(make({{"a", Tensor::of(values)}}, {.op = ReduceOp::max}),
                         "gradients are reduced by avg or sum, not by max"));
    EXPECT_TRUE(contains(make({{"a", Tensor::of(values)}}, {.timeout = std::chrono::milliseconds(0)}),
                         "the timeout must be longer than 0 ms"));
    EXPECT_TRUE(contains(make({{"a", Tensor::of(constant)}}),
                         "parameter 0 (a) is read-only; broadcast_parameters writes to it"));
    EXPECT_EQ(make({{"a", Tensor::of(constant)}}, {.broadcast_parameters = false}), "no error");
    EXPECT_TRUE(contains(make({flag}), "parameter 0 (flag): "));
    EXPECT_EQ(make({flag}, {.comm_hook = [](const GradientBucket&) { return Work(); }}), "no error");
    EXPECT_TRUE(contains(
        make({{"a", Tensor::of(values)}, {"", Tensor::from(values.data(), {2}, {Device::Kind::cuda, 1})}}),
        "parameter 1 is on cuda:1, and parameter 0 (a) on cpu; the parameters of a reducer "
        "are on one device"));
  }));
}

// The rank with the mistake names its parameters; the other learns it at once, long before its deadline.
TEST(ReducerErrors, MissingGradientsAreNamedOnAllRanks) {
  std::barrier both(2);
  test::in_world(2, [&](int rank) {
    ReducedModel model({1, 1, 1});
    GradientReducer reducer(model.parameters(), {.first_bucket_bytes = 0, .bucket_cap_bytes = 0});
    both.arrive_and_wait();
    const std::string reason =
        "2 of 3 parameters got no gradient in step 1: 0 (layer0), 2 (layer2); mark each gradient before "
        "finish_step, or make the reducer with find_unused_parameters";
    const std::string error = error_of([&] {
      reducer.begin_step();
      for (std::size_t i = 0; i < 3; ++i) {
        if (rank == 0 || i == 1) reducer.mark_ready(i);
      }
      reducer.finish_step();
    });
    EXPECT_TRUE(contains(error, reason)) << error;
    EXPECT_EQ(contains(error, " of 3): "), rank == 0) << error;  // it waits for a bucket
    // Every later call repeats it.
    EXPECT_EQ(error_of([&] { reducer.begin_step(); }), error);
    EXPECT_EQ(error_of([&] { reducer.mark_ready(0); }), error);
    EXPECT_EQ(error_of([&] { reducer.zero_gradients(); }), error);
  });
}

// In the hook itself, or in what it leaves to the thread that finishes the step: then the other rank may have
// finished that step already.
class ThrowingHook : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(InItsRest, ThrowingHook, testing::Bool());

TEST_P(ThrowingHook, EndsTheReductionOnAllRanks) {
  std::barrier both(2);
  test::in_world(2, [&](int rank) {
    ReducedModel model({1});
    GradientReducer reducer(model.parameters());
    both.arrive_and_wait();
    const auto fail = [rank] {
      if (rank == 1) throw std::runtime_error("the hook has no memory");
    };
    reducer.register_comm_hook([&](const GradientBucket& bucket) -> BucketReduction {
      if (GetParam()) return {allreduce_hook(bucket), fail};
      fail();
      return allreduce_hook(bucket);
    });
    std::string said;
    try {
      for (int step = 0; step < 2; ++step) {
        reducer.begin_step();
        reducer.mark_ready(0);
        reducer.finish_step();
      }
    } catch (const DistNetworkError& e) {
      said = std::string("network: ") + e.what();
    } catch (const std::runtime_error& e) {
      said = e.what();
    }
    if (rank == 1) {
      EXPECT_EQ(said, GetParam()
                          ? "gradients of parameters 0 (layer0) (bucket 0 of 1): the hook has no memory"
                          : "the hook has no memory");
    } else {
      EXPECT_TRUE(said.starts_with("network: ") && contains(said, "the hook has no memory")) << said;
    }
    EXPECT_THROW(reducer.begin_step(), std::runtime_error);
  });
}

// Nobody completes it.
TEST(ReducerErrors, AWorkOfAHookThatNeverEndsHasADeadline) {
  test::in_world(1, [&](int) {
    ReducedModel model({1});
    GradientReducer reducer(model.parameters(), {.timeout = std::chrono::milliseconds(20)});
    WorkSource never;
    reducer.register_comm_hook([&](const GradientBucket&) { return never.work(); });
    reducer.begin_step();
    reducer.mark_ready(0);
    expect_error(
        [&] { reducer.finish_step(); },
        "gradients of parameters 0 (layer0) (bucket 0 of 1): the operation has not completed within ");
    never.succeed();
  });
}

class LateRank : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(WithAHook, LateRank, testing::Bool());

TEST_P(LateRank, IsNamedAtTheDeadline) {
  std::atomic<bool> over = false;
  test::in_world(2, [&](int rank) {
    ReducedModel model({1});
    GradientReducer reducer(model.parameters(),
                            {.timeout = std::chrono::milliseconds(200),
                             .comm_hook = GetParam() ? fp16_compress_hook() : CommHook()});
    reducer.begin_step();
    if (rank == 0) {
      reducer.mark_ready(0);
      const std::string error = error_of([&] { reducer.finish_step(); });
      EXPECT_TRUE(contains(error, "gradients of parameters 0 (layer0) (bucket 0 of 1): ")) << error;
      EXPECT_TRUE(contains(error, "all_reduce #")) << error;
      EXPECT_TRUE(contains(error, "peer 1")) << error;
      over = true;
      over.notify_all();
    } else {
      over.wait(false);
    }
  });
}

// A step that one rank does not reduce. Without DETAIL it would be reduced with the other's next step.
TEST(ReducerErrors, DetailNamesTheRankThatMakesAnotherStep) {
  set_debug_level(DebugLevel::detail);
  test::in_world(2, [&](int rank) {
    ReducedModel model({1});
    GradientReducer reducer(model.parameters());
    for (int number = 0; number < 3; ++number) {
      reducer.begin_step();
      reducer.mark_ready(0);
      reducer.finish_step();
    }
    const auto begin = [&] {
      if (rank == 1) {
        const auto no_sync = reducer.no_sync();
        reducer.begin_step();
      } else {
        reducer.begin_step();
      }
    };
    expect_error(
        begin,
        "begin_step of group default: rank 0 begins step 4, rank 1 step 4 without reduction (no_sync); all "
        "ranks must make the same steps");
    reducer.begin_step();  // it goes on
    reducer.mark_ready(0);
    reducer.finish_step();
  });
  set_debug_level(DebugLevel::off);
}

// A collective of the program's own between the reductions, on one rank only.
TEST(ReducerErrors, ReductionsInAnotherOrderAreSeen) {
  test::in_world(2, [&](int rank) {
    ReducedModel model({100, 1});
    GradientReducer reducer(model.parameters(), {.first_bucket_bytes = 0, .bucket_cap_bytes = 0});
    reducer.begin_step();
    reducer.mark_ready(1);
    std::vector<std::int32_t> other(3);
    Work work;
    if (rank == 1)
      work = all_reduce(Tensor::of(other), ReduceOp::sum, {{.async_op = true, .timeout = {}}, {}});
    const std::string error = error_of([&] {
      reducer.mark_ready(0);
      reducer.finish_step();
    });
    EXPECT_TRUE(contains(error, "gradients of parameters 0 (layer0) (bucket 1 of 2): ")) << error;
    EXPECT_TRUE(contains(error, "int32") && contains(error, "float32")) << error;
    if (rank == 1) {
      EXPECT_THROW(work.wait(), DistError);
    }
  });
}

}  // namespace
}  // namespace dlaunch::internal
