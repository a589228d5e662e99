// Reductions of the program's own, and the ones with half of the bytes.

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "dlaunch/data_parallel.h"
#include "tests/runtime/data_parallel/reduced_model.h"
#include "tests/runtime/group/thread_groups.h"

namespace dlaunch::internal {
namespace {

using test::floats;
using test::in_groups;
using test::ReducedModel;

void step(GradientReducer& reducer, std::size_t parameters, float value) {
  reducer.begin_step();
  for (std::size_t i = 0; i < parameters; ++i) {
    for (float& element : floats(reducer.gradient(i))) element = value;
    reducer.mark_ready(i);
  }
  reducer.finish_step();
}

TEST(CommHooks, CompressToHalf) {
  // 0.3 and 0.3 + 1, divided by 2, rounded, added.
  const auto rounded = [](auto half) {
    using Half = decltype(half);
    const float low = Half::from(0.3F * 0.5F).to_float();
    const float high = Half::from((0.3F + 1.0F) * 0.5F).to_float();
    return Half::from(low + high).to_float();
  };
  ASSERT_NE(rounded(Float16{}), rounded(BFloat16{}));
  ASSERT_NE(rounded(Float16{}), 0.8F);
  test::expect_success(in_groups(2, [&](const ProcessGroup& group) {
    for (const bool is_float16 : {true, false}) {
      ReducedModel model({5, 1, 30});
      GradientReducer reducer(model.parameters(),
                              {.first_bucket_bytes = 8,
                               .bucket_cap_bytes = 16,
                               .comm_hook = is_float16 ? fp16_compress_hook() : bf16_compress_hook()},
                              group);
      for (int number = 0; number < 3; ++number) {
        step(reducer, 3, 0.3F + static_cast<float>(group.rank()));
        for (std::size_t i = 0; i < 3; ++i) {
          for (const float value : floats(reducer.gradient(i)))
            EXPECT_EQ(value, is_float16 ? rounded(Float16{}) : rounded(BFloat16{}));
        }
      }
    }
  }));
}

TEST(CommHooks, CompressDoublesAndLeaveOtherDtypesAlone) {
  test::expect_success(in_groups(2, [&](const ProcessGroup& group) {
    std::vector<double> doubles(3);
    std::vector<std::int32_t> integers(3);
    GradientReducer reducer({{"doubles", Tensor::of(doubles)}, {"integers", Tensor::of(integers)}},
                            {.comm_hook = fp16_compress_hook()}, group);
    reducer.begin_step();
    *static_cast<double*>(reducer.gradient(0).data()) = 1.5 + group.rank();
    *static_cast<std::int32_t*>(reducer.gradient(1).data()) = 100'001 + 2 * group.rank();
    reducer.mark_ready(0);
    reducer.mark_ready(1);
    reducer.finish_step();
    EXPECT_EQ(*static_cast<double*>(reducer.gradient(0).data()), 2.0);
    EXPECT_EQ(*static_cast<std::int32_t*>(reducer.gradient(1).data()), 100'002);
  }));
}

// A hook gets each bucket once a step, in order, on any rank.
TEST(CommHooks, GetTheBucketsInOrder) {
  test::expect_success(in_groups(2, [&](const ProcessGroup& group) {
    ReducedModel model({1, 2, 3});
    std::vector<GradientBucket> seen;
    GradientReducer reducer(model.parameters(), {.first_bucket_bytes = 4, .bucket_cap_bytes = 16}, group);
    reducer.register_comm_hook([&](const GradientBucket& bucket) {
      seen.push_back(bucket);
      return allreduce_hook(bucket);
    });
    step(reducer, 3, 1);  // the last one first ready
    ASSERT_EQ(seen.size(), 2U);
    EXPECT_EQ(seen[0].index, 0U);
    EXPECT_FALSE(seen[0].is_last);
    EXPECT_EQ(seen[0].parameters, std::vector<std::size_t>{2});
    EXPECT_EQ(seen[1].parameters, (std::vector<std::size_t>{1, 0}));
    EXPECT_TRUE(seen[1].is_last);
    EXPECT_EQ(seen[1].buffer.numel(), 3U);
    ASSERT_EQ(seen[1].gradients.size(), 2U);
    EXPECT_EQ(seen[1].gradients[0].to_string(), "float32[2] on cpu");
    EXPECT_EQ(seen[1].gradients[1].data(), floats(seen[1].buffer).data() + 2);
    EXPECT_EQ(seen[1].group, group);
    reducer.register_comm_hook(nullptr);
    step(reducer, 3, static_cast<float>(group.rank()));
    EXPECT_EQ(seen.size(), 2U);
    EXPECT_EQ(floats(reducer.gradient(0))[0], 0.5F);
  }));
}

// A Work that the program completes itself, on a thread of its own.
TEST(CommHooks, MayFinishOnAnotherThread) {
  test::expect_success(in_groups(2, [&](const ProcessGroup& group) {
    ReducedModel model({4});
    std::vector<std::thread> threads;
    GradientReducer reducer(model.parameters(), {}, group);
    reducer.register_comm_hook([&](const GradientBucket& bucket) {
      const WorkSource done;
      threads.emplace_back([bucket, done] {
        bucket.group.all_reduce(bucket.buffer);
        for (float& value : floats(bucket.buffer)) value *= 10;
        done.succeed();
      });
      return done.work();
    });
    step(reducer, 1, static_cast<float>(group.rank() + 1));
    EXPECT_EQ(floats(reducer.gradient(0))[3], 30.0F);
    for (std::thread& thread : threads) thread.join();
  }));
}

// What remains to be done after the reduction: by the thread that finishes the step, in the order of the
// buckets.
TEST(CommHooks, HaveARestForTheThreadThatFinishesTheStep) {
  test::expect_success(in_groups(2, [&](const ProcessGroup& group) {
    ReducedModel model({1, 2, 3});
    std::vector<std::size_t> finished;
    GradientReducer reducer(model.parameters(), {.first_bucket_bytes = 4, .bucket_cap_bytes = 20}, group);
    reducer.register_comm_hook([&](const GradientBucket& bucket) -> BucketReduction {
      return {allreduce_hook(bucket), [&finished, bucket, caller = std::this_thread::get_id()] {
                EXPECT_EQ(std::this_thread::get_id(), caller);
                finished.push_back(bucket.index);
                for (float& value : floats(bucket.buffer)) value += 10;
              }};
    });
    for (int number = 0; number < 2; ++number) {
      finished.clear();
      step(reducer, 3, static_cast<float>(group.rank()));
      EXPECT_EQ(finished, (std::vector<std::size_t>{0, 1}));
      for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(floats(reducer.gradient(i))[i], 10.5F);
    }
  }));
}

}  // namespace
}  // namespace dlaunch::internal
