// The arguments of a group's collectives: which are rejected, and why.

#include <gtest/gtest.h>

#include <complex>
#include <span>
#include <string>
#include <vector>

#include "tests/runtime/group/thread_groups.h"

namespace dlaunch::internal {
namespace {

using test::contains;
using test::error_contains;
using test::error_of;
using test::expect_success;
using test::in_groups;

TEST(CollectiveArguments, WrongOnesAreRefusedWithTheReason) {
  expect_success(in_groups(2, [](const ProcessGroup& group) {
    if (group.rank() == 1) {
      std::vector<float> four(4);
      std::vector<double> wide(4);
      std::vector<std::complex<float>> complex(4);
      const Tensor tensor = Tensor::of(four);
      const std::vector<Tensor> one = {tensor};
      const std::vector<Tensor> two = {tensor, tensor};
      const auto refused = [](const auto& call) {
        const std::string text = error_of(call);
        const std::string here = " of group test: ";
        const std::size_t at = text.find(here);
        return at == std::string::npos ? text : text.substr(at + here.size());
      };
      EXPECT_EQ(refused([&] { group.reduce(tensor, 7); }), "dst 7 is out of range for a group of 2 ranks");
      EXPECT_EQ(refused([&] { group.reduce(Tensor::of(complex), 0, ReduceOp::max); }),
                "max of complex64 is not possible: complex numbers have no order");
      EXPECT_EQ(refused([&] { group.gather(two, tensor, 0); }),
                "only rank 0, the destination, may give outputs");
      EXPECT_EQ(refused([&] { group.gather(one, tensor, 1); }), "1 outputs for 2 ranks");
      EXPECT_EQ(refused([&] { group.scatter(tensor, two, 0); }), "only rank 0, the source, may give inputs");
      EXPECT_EQ(refused([&] { group.scatter(tensor, {}, 1); }), "0 inputs for 2 ranks");
      EXPECT_EQ(refused([&] { group.reduce_scatter(tensor, one); }), "1 inputs for 2 ranks");
      EXPECT_EQ(refused([&] { group.reduce_scatter_tensor(tensor, tensor); }),
                "the input has 4 elements; 2 ranks with 4 each need 8");
      EXPECT_EQ(refused([&] { group.all_to_all(two, one); }), "1 inputs for 2 ranks");
      const std::vector<std::int64_t> too_many = {3, 2};
      const std::vector<std::int64_t> too_few = {1, 2};
      const std::vector<std::int64_t> negative = {-1, 5};
      EXPECT_EQ(refused([&] { group.all_to_all_single(tensor, tensor, too_many, {}); }),
                "the output splits do not add up to its 4 rows");
      EXPECT_EQ(refused([&] { group.all_to_all_single(tensor, tensor, {}, too_few); }),
                "the input splits add up to 3, not to its 4 rows");
      EXPECT_EQ(refused([&] { group.all_to_all_single(tensor, tensor, {}, negative); }),
                "the input splits do not add up to its 4 rows");
      EXPECT_EQ(refused([&] { group.all_reduce_coalesced({}); }), "the list of tensors is empty");
      EXPECT_EQ(refused([&] { group.all_gather_into_tensor_coalesced(two, one); }),
                "2 outputs and 1 inputs: the numbers must be equal");
      const std::vector<Tensor> mixed = {tensor, Tensor::of(wide)};
      const std::string differ =
          "the tensors differ in dtype or device: float32[4] on cpu and float64[4] on cpu";
      EXPECT_EQ(refused([&] { group.all_reduce_coalesced(mixed); }), differ);
      EXPECT_EQ(refused([&] { group.all_gather_into_tensor_coalesced(mixed, mixed); }), differ);
      EXPECT_EQ(refused([&] { group.reduce_scatter_tensor_coalesced(mixed, mixed); }), differ);
    }
    group.barrier();
  }));
}

// What was started would run on alone, in memory that the caller takes for its own again.
TEST(CollectiveArguments, OneWrongOneOfSeveralStartsNothing) {
  expect_success(in_groups(2, [](const ProcessGroup& group) {
    if (group.rank() == 1) {
      std::vector<float> own(4);
      std::vector<float> all(8);
      std::vector<std::complex<float>> complex(4);
      const std::vector<Tensor> short_ones = {Tensor::of(own), Tensor::of(own)};
      const std::vector<Tensor> second_is_wrong = {Tensor::of(all), Tensor::of(own)};
      EXPECT_TRUE(error_contains([&] { group.all_gather_into_tensor_coalesced(second_is_wrong, short_ones); },
                                 "2 ranks with 4 each need 8"));
      EXPECT_TRUE(error_contains([&] { group.reduce_scatter_tensor_coalesced(short_ones, second_is_wrong); },
                                 "2 ranks with 4 each need 8"));
      const auto after_a_right_one = [&](const auto& wrong) {
        Coalescing together(group);
        together.all_reduce(Tensor::of(own));
        wrong(together);
        return error_of([&] { together.end(); });
      };
      EXPECT_TRUE(contains(after_a_right_one([&](Coalescing& together) {
                             together.all_reduce(Tensor::of(complex), ReduceOp::max);
                           }),
                           "complex numbers have no order"));
      EXPECT_TRUE(contains(after_a_right_one([&](Coalescing& together) {
                             together.all_gather_into_tensor(Tensor::of(own), Tensor::of(own));
                           }),
                           "2 ranks with 4 each need 8"));
      EXPECT_TRUE(contains(after_a_right_one([&](Coalescing& together) {
                             together.all_reduce(Tensor::from(own.data(), {4}, {Device::Kind::cuda, 0}));
                           }),
                           "does not work on device cuda:0"));
    }
    std::vector<int> value = {1};
    group.all_reduce(Tensor::of(value));
    EXPECT_EQ(value[0], 2);
  }));
}

TEST(CollectiveArguments, SizesThatTwoRanksDoNotAgreeOnAreNamed) {
  for (const std::size_t unit : {std::size_t{1}, std::size_t{100'000}}) {
    expect_success(in_groups(3, [&](const ProcessGroup& group) {
      std::vector<int> values(3 * unit + (group.rank() == 0 ? unit : 0));
      std::vector<int> output(3 * unit);
      // Rank 0 sends two units to rank 1, which expects one.
      const auto n = static_cast<std::int64_t>(unit);
      const std::vector<std::int64_t> more = {n, 2 * n, n};
      const std::string error = error_of([&] {
        group.all_to_all_single(
            Tensor::of(output), Tensor::of(values), {},
            group.rank() == 0 ? std::span<const std::int64_t>(more) : std::span<const std::int64_t>());
      });
      if (group.rank() != 1) return;
      EXPECT_EQ(error,
                "rank 1, all_to_all_single #1 of group test, peer 0: in all_to_all(int32) rank 0 sends " +
                    std::to_string(2 * unit) + " elements to this rank, which expects " +
                    std::to_string(unit));
    }));
  }
}

}  // namespace
}  // namespace dlaunch::internal
