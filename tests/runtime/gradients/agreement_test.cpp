// How ranks differ, as a sentence.

#include "runtime/gradients/agreement.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dlaunch::internal {
namespace {

std::vector<ParameterRow> rows_of(const std::vector<std::vector<std::int64_t>>& shapes) {
  static std::vector<float> memory(1000);
  std::vector<ParameterRow> rows;
  for (const auto& shape : shapes) rows.push_back(row_of(Tensor::from(memory.data(), shape)));
  return rows;
}

std::string difference(const std::vector<std::vector<ParameterRow>>& ranks,
                       const std::vector<std::string>& names = {"a", "b.weight", ""}) {
  const std::vector<std::span<const ParameterRow>> rows(ranks.begin(), ranks.end());
  return parameter_difference(rows, names).value_or("none");
}

TEST(Agreement, NamesTheRankAndTheParameter) {
  const auto same = rows_of({{10, 10}, {10}, {}});
  EXPECT_EQ(difference({same, same, same}), "none");
  EXPECT_EQ(difference({same, same, rows_of({{10, 10}, {10, 1}, {3}}), rows_of({{1}, {1}, {1}})}),
            "parameter 1 (b.weight) is float32[10] on rank 0 and float32[10, 1] on rank 2");
  EXPECT_EQ(difference({same, rows_of({{10, 10}, {10}, {1}})}),
            "parameter 2 is float32[] on rank 0 and float32[1] on rank 1");
}

TEST(Agreement, NamesADtype) {
  std::vector<double> doubles(4);
  EXPECT_EQ(difference({rows_of({{4}}), {row_of(Tensor::of(doubles))}}),
            "parameter 0 (a) is float32[4] on rank 0 and float64[4] on rank 1");
}

TEST(Agreement, NamesTheFirstParameterThatARankLacks) {
  EXPECT_EQ(
      difference({rows_of({{1}, {2}}), rows_of({{1}})}),
      "there are 2 parameters on rank 0 and 1 on rank 1; the first that one of them lacks is parameter 1 "
      "(b.weight)");
}

TEST(Agreement, ListsParameters) {
  const std::vector<std::string> names = {"a", "", "c"};
  EXPECT_EQ(parameters_text(std::vector<std::size_t>{2, 1}, names), "2 (c), 1");
  EXPECT_EQ(parameters_text(std::vector<std::size_t>(18, 0), {}),
            "0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 and 2 more");
}

TEST(Agreement, WritesAnyRow) {
  EXPECT_EQ(row_text({77, 99}), "unknown dtype[0, 0, 0, 0, 0, 0, 0, 0]");
  EXPECT_EQ(row_text({-1, -5}), "unknown dtype[]");
}

TEST(Agreement, ComparesParametersByAHash) {
  const ReducerOptions options;
  const ReducerRow first = row_of(rows_of({{2, 3}, {4}}), {}, options, true);
  EXPECT_TRUE(same_parameters(std::vector{first, first}));
  for (const auto& shapes :
       {rows_of({{3, 2}, {4}}), rows_of({{4}, {2, 3}}), rows_of({{2, 3}}), rows_of({{6}, {4}})}) {
    EXPECT_FALSE(same_parameters(std::vector{first, first, row_of(shapes, {}, options, true)}));
  }
}

TEST(Agreement, NamesAnOption) {
  const auto rows = rows_of({{1}});
  const auto other = [&](auto change) {
    ReducerOptions options;
    change(options);
    const ReducerRow first = row_of(rows, {}, {}, true);
    return option_difference(std::vector{first, first, row_of(rows, {}, options, true)}).value_or("none");
  };
  EXPECT_EQ(other([](ReducerOptions&) {}), "none");
  EXPECT_EQ(other([](ReducerOptions& options) { options.bucket_cap_bytes = 5; }),
            "bucket_cap_bytes is 26214400 on rank 0 and 5 on rank 2");
  EXPECT_EQ(other([](ReducerOptions& options) { options.first_bucket_bytes = 5; }),
            "first_bucket_bytes is 1048576 on rank 0 and 5 on rank 2");
  EXPECT_EQ(other([](ReducerOptions& options) { options.op = ReduceOp::sum; }),
            "op is avg on rank 0 and sum on rank 2");
  EXPECT_EQ(other([](ReducerOptions& options) { options.find_unused_parameters = true; }),
            "find_unused_parameters is 0 on rank 0 and 1 on rank 2");
  EXPECT_EQ(other([](ReducerOptions& options) { options.rebuild_buckets = false; }),
            "rebuild_buckets is 1 on rank 0 and 0 on rank 2");
  EXPECT_EQ(other([](ReducerOptions& options) { options.broadcast_parameters = false; }),
            "broadcast_parameters is 1 on rank 0 and 0 on rank 2");
  const ReducerRow first = row_of(rows, {}, {}, true);
  EXPECT_EQ(option_difference(std::vector{first, row_of(rows, {Device::Kind::cuda, 1}, {}, true)}),
            "the device of the parameters is cpu on rank 0 and cuda on rank 1");
  // May differ.
  EXPECT_EQ(other([](ReducerOptions& options) { options.timeout = std::chrono::seconds(1); }), "none");
}

TEST(Agreement, FindsTheRankWithWrongArguments) {
  const auto rows = rows_of({{1}});
  const ReducerRow good = row_of(rows, {}, {}, true);
  EXPECT_EQ(unusable_rank(std::vector{good, good}), std::nullopt);
  EXPECT_EQ(unusable_rank(std::vector{good, row_of(rows, {}, {}, false)}), 1U);
}

TEST(Agreement, ComparesSteps) {
  EXPECT_EQ(step_difference(std::vector<StepRow>{{3, 1}, {3, 1}}), std::nullopt);
  EXPECT_EQ(step_difference(std::vector<StepRow>{{3, 1}, {3, 1}, {3, 0}}),
            "rank 0 begins step 3, rank 2 step 3 without reduction (no_sync)");
  EXPECT_EQ(step_difference(std::vector<StepRow>{{4, 0}, {3, 1}}),
            "rank 0 begins step 4 without reduction (no_sync), rank 1 step 3");
}

}  // namespace
}  // namespace dlaunch::internal
