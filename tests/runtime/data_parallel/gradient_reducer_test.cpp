// Gradients are averaged over the ranks, in whatever order they become ready.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "dlaunch/data_parallel.h"
#include "tests/runtime/data_parallel/reduced_model.h"
#include "tests/runtime/group/thread_groups.h"

namespace dlaunch::internal {
namespace {

using test::floats;
using test::gradient_value;
using test::in_groups;
using test::mean_value;
using test::ReducedModel;
using test::shuffled;
using test::write_gradient;
using test::wrong_elements;

const std::vector<std::size_t> sizes = {5, 1, 40, 0, 17, 3};

ReducerOptions short_buckets() { return {.first_bucket_bytes = 16, .bucket_cap_bytes = 100}; }

// One step in which each rank has an order of its own.
void step(GradientReducer& reducer, const ProcessGroup& group, int number) {
  reducer.begin_step();
  for (const std::size_t i : shuffled(sizes.size(), static_cast<unsigned>(100 * number + group.rank()))) {
    write_gradient(floats(reducer.gradient(i)), group.rank(), i, number);
    reducer.mark_ready(i);
  }
  reducer.finish_step();
}

void expect_means(const GradientReducer& reducer, int ranks, int number) {
  for (std::size_t i = 0; i < sizes.size(); ++i)
    EXPECT_EQ(wrong_elements(floats(reducer.gradient(i)), ranks, i, number), 0U) << "parameter " << i;
}

TEST(GradientReducer, AveragesInAnyOrderOfArrival) {
  for (const int ranks : {1, 2, 4}) {
    test::expect_success(in_groups(ranks, [&](const ProcessGroup& group) {
      ReducedModel model(sizes);
      GradientReducer reducer(model.parameters(), short_buckets(), group);
      for (int number = 1; number <= 6; ++number) {
        step(reducer, group, number);
        expect_means(reducer, ranks, number);
      }
      EXPECT_EQ(reducer.statistics().steps, 6U);
    }));
  }
}

TEST(GradientReducer, SumsIfAsked) {
  test::expect_success(in_groups(2, [&](const ProcessGroup& group) {
    ReducedModel model(sizes);
    GradientReducer reducer(model.parameters(), {.op = ReduceOp::sum}, group);
    step(reducer, group, 1);
    EXPECT_EQ(floats(reducer.gradient(2))[7], 2 * mean_value(2, 2, 7, 1));
  }));
}

TEST(GradientReducer, GivesAllRanksTheParametersOfRank0) {
  test::expect_success(in_groups(3, [&](const ProcessGroup& group) {
    ReducedModel model(sizes, static_cast<float>(group.rank() + 5));
    const GradientReducer reducer(model.parameters(), {}, group);
    EXPECT_EQ(model.values, ReducedModel(sizes, 5).values);
    ReducedModel own(sizes, static_cast<float>(group.rank()));
    const GradientReducer other(own.parameters(), {.broadcast_parameters = false}, group);
    EXPECT_EQ(own.values, ReducedModel(sizes, static_cast<float>(group.rank())).values);
  }));
}

// The buckets of the first step go from the last parameter to the first; then they follow the arrival on
// rank 0, whatever came first on the others. Gradients keep their values.
TEST(GradientReducer, RebuildsBucketsByTheArrivalOnRank0) {
  test::expect_success(in_groups(2, [&](const ProcessGroup& group) {
    ReducedModel model({100, 1, 50, 2});
    std::vector<std::vector<std::size_t>> reduced;
    GradientReducer reducer(model.parameters(), {.first_bucket_bytes = 8, .bucket_cap_bytes = 100}, group);
    reducer.register_comm_hook([&](const GradientBucket& bucket) {
      reduced.push_back(bucket.parameters);
      return allreduce_hook(bucket);
    });
    EXPECT_EQ(reducer.statistics().bucket_bytes, (std::vector<std::size_t>{8, 200, 404}));
    const auto run_step = [&](const std::vector<std::size_t>& order) {
      reduced.clear();
      reducer.begin_step();
      for (const std::size_t i : order) {
        floats(reducer.gradient(i))[0] = static_cast<float>(i) + static_cast<float>(2 * group.rank());
        reducer.mark_ready(i);
      }
      reducer.finish_step();
    };
    run_step(group.rank() == 0 ? std::vector<std::size_t>{1, 0, 3, 2} : std::vector<std::size_t>{3, 2, 1, 0});
    EXPECT_EQ(reduced, (std::vector<std::vector<std::size_t>>{{3}, {2}, {1, 0}}));
    EXPECT_FALSE(reducer.statistics().rebuilt);
    const std::shared_ptr<const void> memory = reducer.memory();
    const Tensor old_place = reducer.gradient(3);
    reducer.begin_step();
    EXPECT_TRUE(reducer.statistics().rebuilt);
    EXPECT_NE(reducer.gradient(3).data(), old_place.data());
    EXPECT_EQ(floats(old_place)[0], 4);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(floats(reducer.gradient(i))[0], static_cast<float>(i) + 1);
    const std::vector<std::vector<std::size_t>> by_arrival = {{1}, {0}, {3, 2}};
    for (std::size_t i = 0; i < 4; ++i) reducer.mark_ready(i);
    reducer.finish_step();
    for (int number = 0; number < 3; ++number) {
      run_step({2, 0, 1, 3});
      EXPECT_EQ(reduced, by_arrival);  // only once
    }
    EXPECT_EQ(reducer.statistics().bucket_bytes, (std::vector<std::size_t>{4, 400, 208}));
  }));
}

TEST(GradientReducer, KeepsItsBucketsIfAsked) {
  test::expect_success(in_groups(2, [&](const ProcessGroup& group) {
    ReducedModel model(sizes);
    ReducerOptions options = short_buckets();
    options.rebuild_buckets = false;
    GradientReducer reducer(model.parameters(), options, group);
    const auto before = reducer.statistics().bucket_bytes;
    const void* const first = reducer.gradient(0).data();
    for (int number = 1; number <= 3; ++number) step(reducer, group, number);
    EXPECT_EQ(reducer.statistics().bucket_bytes, before);
    EXPECT_EQ(reducer.gradient(0).data(), first);
    EXPECT_FALSE(reducer.statistics().rebuilt);
  }));
}

TEST(GradientReducer, CopiesGradientsOfTheCallerInAndOut) {
  test::expect_success(in_groups(2, [&](const ProcessGroup& group) {
    ReducedModel model(sizes);
    ReducedModel gradients(sizes);
    GradientReducer reducer(model.parameters(), short_buckets(), group);
    for (int number = 1; number <= 3; ++number) {
      reducer.begin_step();
      for (const std::size_t i : shuffled(sizes.size(), static_cast<unsigned>(number))) {
        write_gradient(gradients.values[i], group.rank(), i, number);
        reducer.mark_ready(i, Tensor::of(gradients.values[i]));
      }
      reducer.finish_step();
      for (std::size_t i = 0; i < sizes.size(); ++i)
        EXPECT_EQ(wrong_elements(gradients.values[i], 2, i, number), 0U);
    }
  }));
}

TEST(GradientReducer, TakesGradientsOfSeveralThreads) {
  test::expect_success(in_groups(2, [&](const ProcessGroup& group) {
    ReducedModel model(std::vector<std::size_t>(64, 9));
    GradientReducer reducer(model.parameters(), {.first_bucket_bytes = 40, .bucket_cap_bytes = 100}, group);
    for (int number = 1; number <= 10; ++number) {
      reducer.begin_step();
      std::vector<std::thread> threads;
      for (std::size_t thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&, thread] {
          for (std::size_t i = thread; i < 64; i += 4) {
            write_gradient(floats(reducer.gradient(i)), group.rank(), i, number);
            reducer.mark_ready(i);
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      reducer.finish_step();
      for (std::size_t i = 0; i < 64; ++i)
        EXPECT_EQ(wrong_elements(floats(reducer.gradient(i)), 2, i, number), 0U);
    }
  }));
}

TEST(GradientReducer, AddsUpInNoSync) {
  test::expect_success(in_groups(2, [&](const ProcessGroup& group) {
    ReducedModel model({4, 2});
    GradientReducer reducer(model.parameters(), {}, group);
    std::vector<float> own(2);
    const auto add = [&](float value) {
      reducer.begin_step();
      floats(reducer.gradient(0))[1] += value;
      reducer.mark_ready(0);
      own[0] += value;
      reducer.mark_ready(1, Tensor::of(own));
      reducer.finish_step();
    };
    const auto rank = static_cast<float>(group.rank());
    for (int round = 0; round < 3; ++round) {
      reducer.zero_gradients();
      own[0] = 0;
      {
        const auto no_sync = reducer.no_sync();
        add(1 + rank);
        add(10);
        EXPECT_EQ(floats(reducer.gradient(0))[1], 11 + rank);
        EXPECT_EQ(own[0], 11 + rank);
      }
      add(100);
      EXPECT_EQ(floats(reducer.gradient(0))[1], 111.5F);
      EXPECT_EQ(own[0], 111.5F);
    }
    EXPECT_EQ(reducer.statistics().steps, 3U);
  }));
}

// A step in no_sync may leave gradients out.
TEST(GradientReducer, NoSyncNeedsNotAllGradients) {
  test::expect_success(in_groups(1, [&](const ProcessGroup& group) {
    ReducedModel model({1, 1});
    GradientReducer reducer(model.parameters(), {}, group);
    const auto no_sync = reducer.no_sync();
    reducer.begin_step();
    reducer.finish_step();
  }));
}

TEST(GradientReducer, KnowsWhichParametersNoRankUsed) {
  test::expect_success(in_groups(2, [&](const ProcessGroup& group) {
    ReducedModel model({1, 1, 1, 1});
    GradientReducer reducer(model.parameters(), {.find_unused_parameters = true}, group);
    for (int number = 0; number < 3; ++number) {
      reducer.begin_step();
      // 0: used by both; 1: by rank 1; 2: by none; 3: by none, marked so.
      for (std::size_t i = 0; i < 2; ++i) {
        if (i > 0 && group.rank() == 0) continue;
        floats(reducer.gradient(i))[0] = 8;
        reducer.mark_ready(i);
      }
      reducer.mark_unused(3);
      reducer.finish_step();
      EXPECT_EQ(floats(reducer.gradient(0))[0], 8.0F);
      EXPECT_EQ(floats(reducer.gradient(1))[0], 4.0F);
      EXPECT_TRUE(reducer.used(0));
      EXPECT_TRUE(reducer.used(1));
      EXPECT_FALSE(reducer.used(2));
      EXPECT_FALSE(reducer.used(3));
      EXPECT_EQ(reducer.statistics().unused_parameters, group.rank() == 0 ? 3U : 2U);
      EXPECT_FALSE(reducer.statistics().rebuilt);
    }
  }));
}

// What no_sync has left counts, in the buckets and in memory of the caller.
TEST(GradientReducer, AnUnusedParameterKeepsWhatNoSyncHasLeft) {
  test::expect_success(in_groups(2, [&](const ProcessGroup& group) {
    ReducedModel model({1, 1});
    GradientReducer reducer(model.parameters(), {.find_unused_parameters = true}, group);
    std::vector<float> own = {6};
    for (int number = 0; number < 2; ++number) {
      own[0] = 6;
      {
        const auto no_sync = reducer.no_sync();
        reducer.begin_step();
        if (group.rank() == 0) {
          floats(reducer.gradient(0))[0] = 2;
          reducer.mark_ready(0);
          reducer.mark_ready(1, Tensor::of(own));
        }
        reducer.finish_step();
      }
      reducer.begin_step();
      reducer.finish_step();
      EXPECT_TRUE(reducer.used(0));
      EXPECT_EQ(floats(reducer.gradient(0))[0], 1.0F);
      EXPECT_EQ(own[0], group.rank() == 0 ? 3.0F : 6.0F);
      reducer.begin_step();
      reducer.finish_step();
      EXPECT_FALSE(reducer.used(0));  // not twice
      EXPECT_EQ(floats(reducer.gradient(0))[0], 0.0F);
    }
  }));
}

// N ranks with a part of the batch each take the steps of one process with the whole batch: linear regression
// by gradient descent, with two layers.
TEST(GradientReducer, TrainsAsOneProcessDoes) {
  struct Training {
    std::vector<float> weights = {0.1F, -0.2F, 0.3F};
    std::vector<float> bias = {0.5F};
    std::vector<float> losses;
  };
  constexpr int batch = 16;
  const auto train = [](const ProcessGroup& group) {
    Training training;
    GradientReducer reducer({{"weights", Tensor::of(training.weights)}, {"bias", Tensor::of(training.bias)}},
                            {}, group);
    for (int number = 0; number < 20; ++number) {
      reducer.begin_step();
      reducer.zero_gradients();
      const auto weights = floats(reducer.gradient(0));
      const auto bias = floats(reducer.gradient(1));
      const int own = batch / group.size();
      float loss = 0;
      for (int i = group.rank() * own; i < (group.rank() + 1) * own; ++i) {
        const float x[3] = {std::sin(static_cast<float>(i + number)), std::cos(static_cast<float>(2 * i)),
                            0.25F};
        float error = training.bias[0] - (2 * x[0] - x[1]);
        for (std::size_t j = 0; j < 3; ++j) error += training.weights[j] * x[j];
        for (std::size_t j = 0; j < 3; ++j) weights[j] += 2 * error * x[j] / static_cast<float>(own);
        bias[0] += 2 * error / static_cast<float>(own);
        loss += error * error / static_cast<float>(batch);
      }
      reducer.mark_ready(1);
      reducer.mark_ready(0);
      reducer.finish_step();
      for (std::size_t j = 0; j < 3; ++j) training.weights[j] -= 0.1F * floats(reducer.gradient(0))[j];
      training.bias[0] -= 0.1F * floats(reducer.gradient(1))[0];
      std::vector<float> sum = {loss};
      group.all_reduce(Tensor::of(sum));
      training.losses.push_back(sum[0]);
    }
    return training;
  };
  Training alone;
  test::expect_success(in_groups(1, [&](const ProcessGroup& group) { alone = train(group); }));
  EXPECT_LT(alone.losses.back(), alone.losses.front() / 2);
  for (const int ranks : {2, 4}) {
    std::vector<Training> all(static_cast<std::size_t>(ranks));
    test::expect_success(in_groups(ranks, [&](const ProcessGroup& group) {
      all[static_cast<std::size_t>(group.rank())] = train(group);
    }));
    for (const Training& training : all) {
      EXPECT_EQ(training.weights, all[0].weights);  // the same bits
      EXPECT_EQ(training.bias, all[0].bias);
      for (std::size_t j = 0; j < 3; ++j) EXPECT_NEAR(training.weights[j], alone.weights[j], 1e-5);
      for (std::size_t i = 0; i < 20; ++i) EXPECT_NEAR(training.losses[i], alone.losses[i], 1e-5);
    }
  }
}

TEST(GradientReducer, MeasuresItsSteps) {
  test::expect_success(in_groups(2, [&](const ProcessGroup& group) {
    ReducedModel model(sizes);
    GradientReducer reducer(model.parameters(), short_buckets(), group);
    EXPECT_EQ(reducer.statistics().steps, 0U);
    EXPECT_EQ(reducer.statistics().parameters, sizes.size());
    EXPECT_EQ(reducer.statistics().total_bytes, 66 * sizeof(float));
    for (int number = 1; number <= 3; ++number) step(reducer, group, number);
    const ReducerStatistics statistics = reducer.statistics();
    EXPECT_EQ(statistics.steps, 3U);
    for (const StepTimes& times : {statistics.last, statistics.average}) {
      EXPECT_GT(times.forward.count(), 0);
      EXPECT_GT(times.backward.count(), 0);
      EXPECT_GT(times.communication.count(), 0);
      EXPECT_LE(times.overlap, times.communication);
    }
  }));
}

// Memory that a running reduction uses outlives the reducer. (AddressSanitizer and the other rank would see.)
TEST(GradientReducer, MayBeDestroyedDuringAReduction) {
  test::expect_success(in_groups(2, [&](const ProcessGroup& group) {
    ReducedModel model({100, 100});
    auto reducer = std::make_optional<GradientReducer>(model.parameters(), short_buckets(), group);
    reducer->begin_step();
    reducer->mark_ready(1);
    if (group.rank() == 0) reducer.reset();
    group.barrier();
  }));
}

}  // namespace
}  // namespace dlaunch::internal
