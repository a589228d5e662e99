// All ranks learn how their models differ before any gradient is reduced.

#include "runtime/data_parallel/reducer_agreement.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/runtime/data_parallel/reduced_model.h"
#include "tests/runtime/group/thread_groups.h"

namespace dlaunch::internal {
namespace {

using test::error_of;
using test::in_groups;
using test::ReducedModel;

const std::vector<std::string> names = {"layer0", "layer1", "layer2"};

void agree(const ProcessGroup& group, ReducedModel model, const ReducerOptions& options = {},
           const std::optional<std::string>& problem = {}) {
  const auto parameters = model.parameters();
  require_agreement(group, parameters, names, options, problem);
}

TEST(ReducerAgreement, NamesTheRankAndTheParameterOnAllRanks) {
  test::expect_success(in_groups(3, [&](const ProcessGroup& group) {
    const std::size_t second = group.rank() == 2 ? 5 : 4;
    EXPECT_TRUE(
        test::contains(error_of([&] {
                         agree(group, ReducedModel({3, second, 1}));
                       }),
                       "GradientReducer of group test: parameter 1 (layer1) is float32[4] on rank 0 and "
                       "float32[5] on rank 2; all ranks must have the same parameters in the same order"));
    agree(group, ReducedModel({3, 4, 1}));  // the group is as it was
  }));
}

TEST(ReducerAgreement, NamesAParameterThatARankLacks) {
  test::expect_success(in_groups(3, [&](const ProcessGroup& group) {
    auto sizes = std::vector<std::size_t>{3, 4, 1};
    sizes.resize(group.rank() == 1 ? 1 : 3);
    EXPECT_TRUE(
        test::error_contains([&] { agree(group, ReducedModel(sizes)); },
                             "there are 3 parameters on rank 0 and 1 on rank 1; the first that one of "
                             "them lacks is parameter 1 (layer1)"));
  }));
}

TEST(ReducerAgreement, NamesAnOption) {
  test::expect_success(in_groups(2, [&](const ProcessGroup& group) {
    const ReducerOptions options{.bucket_cap_bytes = group.rank() == 0 ? std::size_t{7} : std::size_t{9}};
    EXPECT_TRUE(
        test::error_contains([&] { agree(group, ReducedModel({1}), options); },
                             "bucket_cap_bytes is 7 on rank 0 and 9 on rank 1; all ranks must give the "
                             "same options"));
  }));
}

// The others do not wait for it.
TEST(ReducerAgreement, ARankWithWrongArgumentsIsNamedOnTheOthers) {
  test::expect_success(in_groups(2, [&](const ProcessGroup& group) {
    const std::optional<std::string> problem =
        group.rank() == 1 ? std::optional<std::string>("there are no parameters") : std::nullopt;
    const std::string error = error_of([&] { agree(group, ReducedModel({1}), {}, problem); });
    EXPECT_TRUE(test::contains(error, group.rank() == 1 ? "there are no parameters"
                                                        : "the arguments of rank 1 are wrong; its own error"))
        << error;
  }));
}

TEST(ReducerAgreement, ComparesSteps) {
  test::expect_success(in_groups(2, [&](const ProcessGroup& group) {
    require_same_step(group, {4, 1}, {});
    EXPECT_TRUE(test::error_contains(
        [&] {
          require_same_step(group, {4, group.rank() == 0 ? 1 : 0}, {});
        },
        "rank 0 begins step 4, rank 1 step 4 without reduction (no_sync)"));
  }));
}

TEST(ReducerAgreement, BroadcastsParametersOfAnySize) {
  test::expect_success(in_groups(3, [&](const ProcessGroup& group) {
    ReducedModel model({1, 0, 5000}, static_cast<float>(group.rank() + 1));
    broadcast_parameters(group, model.parameters());
    EXPECT_EQ(model.values, ReducedModel({1, 0, 5000}, 1).values);
  }));
}

}  // namespace
}  // namespace dlaunch::internal
