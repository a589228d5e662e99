// Every collective of a group, over threads: all dtypes and reductions, world sizes 1 to 8, from no element
// to several MiB, compared with what plain loops compute; and the examples of torch.distributed's
// documentation.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/reduce/reduce.h"
#include "tests/runtime/collectives/values.h"
#include "tests/runtime/group/thread_groups.h"
#include "tests/runtime/slowness.h"

namespace dlaunch::internal {
namespace {

using test::expect_success;
using test::in_groups;

using Bytes = std::vector<std::byte>;

// The i-th of a rank's values, as a number that every dtype stores exactly, also after a sum or product of
// eight, and that a division by the world size leaves whole.
int number_of(int rank, std::size_t i, ReduceOp op, int size) {
  const int number = static_cast<int>((i * 5 + static_cast<std::size_t>(rank) * 3) % 2);
  if (op == ReduceOp::product) return number + 1 - rank / 4;
  return op == ReduceOp::avg ? number * size : number;
}

Bytes values_of(DType dtype, int rank, std::size_t begin, std::size_t count, ReduceOp op = ReduceOp::sum,
                int size = 1) {
  Bytes raw(count * size_of(dtype));
  test::with_type(dtype, [&]<class T>(T*) {
    for (std::size_t i = 0; i < count; ++i) {
      int number = number_of(rank, begin + i, op, size);
      if (dtype == DType::boolean) number = number != 0;
      const T value = test::to_value<T>(number);
      std::memcpy(raw.data() + i * sizeof(T), &value, sizeof value);
    }
  });
  return raw;
}

Tensor view(Bytes& raw, DType dtype) {
  const std::int64_t count = static_cast<std::int64_t>(raw.size() / size_of(dtype));
  return Tensor(static_cast<void*>(raw.data()), dtype, std::span(&count, 1));
}

// Elements begin .. begin+count of the reduction of all ranks' values.
Bytes reduced(DType dtype, int size, std::size_t begin, std::size_t count, const Reduction& reduction) {
  std::vector<Bytes> values;
  for (int rank = 0; rank < size; ++rank) {
    values.push_back(values_of(dtype, rank, begin, count, reduction.op, size));
  }
  return test::reduction_of(values, dtype, reduction);
}

OperationOptions with_factor(double factor) {
  OperationOptions options;
  options.premul_factor = factor;
  return options;
}

// What a reducing collective must do, for one dtype, reduction and length.
struct Case {
  DType dtype;
  Reduction reduction;
  std::size_t count;

  [[nodiscard]] std::string name() const {
    return std::string(to_string(reduction.op)) + " of " + std::to_string(count) + " x " +
           std::string(to_string(dtype));
  }
};

// The results, computed once for all ranks. `parts`: how many times the length is reduced.
std::vector<Bytes> results_of(const std::vector<Case>& cases, int size, std::size_t parts = 1) {
  std::vector<Bytes> results;
  for (const auto& [dtype, reduction, count] : cases) {
    results.push_back(reduced(dtype, size, 0, parts * count, reduction));
  }
  return results;
}

// `parts`: of how many times the length the collective's input is.
std::vector<Case> reducing_cases(std::size_t parts = 1) {
  std::vector<Case> cases;
  for (const DType dtype : test::all_dtypes) {
    for (const ReduceOp op : test::all_ops) {
      if (why_not_allowed(dtype, op)) continue;
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{37}}) {
        cases.push_back({dtype, {op, 2.0}, count});
      }
    }
    // Past the limit of short messages.
    cases.push_back({dtype, {ReduceOp::sum, 1.0}, 40001});
  }
  cases.push_back({DType::float32, {ReduceOp::avg, 1.0}, 700'007 / parts / test::slowness});
  cases.push_back({DType::int64, {ReduceOp::max, 1.0}, 300'001 / parts / test::slowness});
  cases.push_back({DType::complex128, {ReduceOp::premul_sum, 2.0}, 100'003 / parts / test::slowness});
  return cases;
}

class Collectives : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Groups, Collectives, testing::Values(1, 2, 3, 4, 5, 8));

TEST_P(Collectives, AllReduce) {
  const int size = GetParam();
  const std::vector<Case> cases = reducing_cases();
  const std::vector<Bytes> wanted = results_of(cases, size);
  expect_success(in_groups(size, [&](const ProcessGroup& group) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const auto& [dtype, reduction, count] = cases[i];
      Bytes values = values_of(dtype, group.rank(), 0, count, reduction.op, size);
      group.all_reduce(view(values, dtype), reduction.op, with_factor(reduction.factor));
      EXPECT_TRUE(test::same_bits(values, wanted[i])) << cases[i].name();
    }
  }));
}

// Numbers near both ends of the type: their sum is beyond it.
template <class T>
std::vector<T> far_out(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const bool high = (i / 3 + static_cast<std::size_t>(rank) * i) % 4 != 0;
    const T away = static_cast<T>((i + static_cast<std::size_t>(rank)) % 5);
    values[i] =
        static_cast<T>(high ? std::numeric_limits<T>::max() - away : std::numeric_limits<T>::min() + away);
  }
  return values;
}

template <class T>
std::vector<T> means(int size, std::size_t count) {
  std::vector<Bytes> all;
  for (int rank = 0; rank < size; ++rank) {
    const std::vector<T> values = far_out<T>(rank, count);
    const auto raw = std::as_bytes(std::span(values));
    all.emplace_back(raw.begin(), raw.end());
  }
  const Bytes raw = test::reduction_of(all, dtype_of<T>(), {ReduceOp::avg, 1.0});
  std::vector<T> result(count);
  if (count > 0) std::memcpy(result.data(), raw.data(), raw.size());
  return result;
}

template <class T>
void expect_means(const ProcessGroup& group, std::size_t count, const std::vector<T>& wanted) {
  const std::vector<T> own = far_out<T>(group.rank(), count);
  OperationOptions async;
  async.async_op = true;
  std::vector<T> one = own;
  std::vector<T> two = own;
  const Work first = group.all_reduce(Tensor::of(one), ReduceOp::avg, async);
  const Work second = group.all_reduce(Tensor::of(two), ReduceOp::avg, async);
  first.wait();
  second.wait();
  EXPECT_EQ(one, wanted);
  EXPECT_EQ(two, wanted);
  one = own;
  group.all_reduce(Tensor::of(one), ReduceOp::avg);
  EXPECT_EQ(one, wanted);
  two = own;
  group.all_reduce_coalesced(std::vector<Tensor>{Tensor::of(one), Tensor::of(two)}, ReduceOp::avg);
  EXPECT_EQ(one, wanted);  // the mean of means
  EXPECT_EQ(two, wanted);
  one = own;
  const int root = group.size() / 2;
  group.reduce(Tensor::of(one), root, ReduceOp::avg);
  EXPECT_EQ(one, group.rank() == root ? wanted : own);
  std::vector<T> input;
  for (int rank = 0; rank < group.size(); ++rank) input.insert(input.end(), own.begin(), own.end());
  const std::vector<T> before = input;
  group.reduce_scatter_tensor(Tensor::of(one), Tensor::of(input), ReduceOp::avg);
  EXPECT_EQ(one, wanted);
  EXPECT_EQ(input, before);
}

TEST_P(Collectives, IntegerAveragesDoNotOverflow) {
  const int size = GetParam();
  for (const DType dtype : {DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8}) {
    test::with_type(dtype, [size]<class T>(T*) {
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        for (const std::size_t count : {0U, 1U, 37U, 40'001U}) {
          const std::vector<T> wanted = means<T>(size, count);
          expect_success(
              in_groups(size, [&](const ProcessGroup& group) { expect_means<T>(group, count, wanted); }));
        }
      }
    });
  }
}

TEST_P(Collectives, ReduceLeavesTheOthersAlone) {
  const int size = GetParam();
  const std::vector<Case> cases = reducing_cases();
  const std::vector<Bytes> wanted = results_of(cases, size);
  expect_success(in_groups(size, [&](const ProcessGroup& group) {
    int root = 0;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const auto& [dtype, reduction, count] = cases[i];
      root = (root + 1) % size;
      const Bytes own = values_of(dtype, group.rank(), 0, count, reduction.op, size);
      Bytes values = own;
      group.reduce(view(values, dtype), root, reduction.op, with_factor(reduction.factor));
      EXPECT_TRUE(test::same_bits(values, group.rank() == root ? wanted[i] : own)) << cases[i].name();
    }
  }));
}

TEST_P(Collectives, ReduceScatterOfEqualParts) {
  const int size = GetParam();
  const std::size_t ranks = static_cast<std::size_t>(size);
  const std::vector<Case> cases = reducing_cases(ranks);
  const std::vector<Bytes> all_wanted = results_of(cases, size, ranks);
  expect_success(in_groups(size, [&](const ProcessGroup& group) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const auto& [dtype, reduction, count] = cases[i];
      const Bytes own = values_of(dtype, group.rank(), 0, ranks * count, reduction.op, size);
      Bytes input = own;
      Bytes output(count * size_of(dtype));
      group.reduce_scatter_tensor(view(output, dtype), view(input, dtype), reduction.op,
                                  with_factor(reduction.factor));
      const auto begin = all_wanted[i].begin() + group.rank() * static_cast<std::ptrdiff_t>(output.size());
      const Bytes wanted(begin, begin + static_cast<std::ptrdiff_t>(output.size()));
      EXPECT_TRUE(test::same_bits(output, wanted)) << cases[i].name();
      EXPECT_TRUE(test::same_bits(input, own));
    }
  }));
}

TEST_P(Collectives, ReduceScatterOfPartsOfDifferentSizesAlsoInPlace) {
  const int size = GetParam();
  for (const std::size_t base :
       {std::size_t{0}, std::size_t{5}, std::size_t{9000}, std::size_t{300'000} / test::slowness}) {
    const auto length = [base](int rank) { return base * static_cast<std::size_t>(rank % 3) + 1; };
    for (const bool in_place : {false, true}) {
      expect_success(in_groups(size, [&](const ProcessGroup& group) {
        std::vector<Bytes> inputs;
        inputs.reserve(static_cast<std::size_t>(size));
        std::vector<Tensor> parts;
        for (int rank = 0; rank < size; ++rank) {
          inputs.push_back(values_of(DType::float32, group.rank(), 0, length(rank)));
          parts.push_back(view(inputs.back(), DType::float32));
        }
        Bytes output(length(group.rank()) * sizeof(float));
        const std::size_t own = static_cast<std::size_t>(group.rank());
        group.reduce_scatter(in_place ? parts[own] : view(output, DType::float32), parts);
        EXPECT_EQ(in_place ? inputs[own] : output,
                  reduced(DType::float32, size, 0, length(group.rank()), {ReduceOp::sum, 1.0}));
      }));
    }
  }
}

const std::vector<std::size_t> lengths = {0, 1, 37, 1000, 20011, 600'001};

TEST_P(Collectives, GatherAndScatterFromEveryRoot) {
  const int size = GetParam();
  expect_success(in_groups(size, [&](const ProcessGroup& group) {
    for (const std::size_t count : lengths) {
      for (int root = 0; root < size; ++root) {
        if (count > 1000 && root != size / 2) continue;
        const bool is_root = group.rank() == root;
        Bytes input = values_of(DType::int32, group.rank(), 0, count);
        std::vector<Bytes> memory(is_root ? static_cast<std::size_t>(size) : 0, Bytes(count * 4));
        std::vector<Tensor> parts;
        parts.reserve(memory.size());
        for (Bytes& part : memory) parts.push_back(view(part, DType::int32));
        group.gather(parts, view(input, DType::int32), root);
        for (int rank = 0; is_root && rank < size; ++rank) {
          EXPECT_EQ(memory[static_cast<std::size_t>(rank)], values_of(DType::int32, rank, 0, count));
        }
        // And back: everybody gets what it gave.
        Bytes output(count * 4);
        group.scatter(view(output, DType::int32), parts, root);
        EXPECT_EQ(output, input) << count << " from " << root;
      }
    }
  }));
}

TEST_P(Collectives, EveryTypeMoves) {
  const int size = GetParam();
  const std::size_t ranks = static_cast<std::size_t>(size);
  expect_success(in_groups(size, [&](const ProcessGroup& group) {
    const std::size_t rank = static_cast<std::size_t>(group.rank());
    for (const DType dtype : test::all_dtypes) {
      for (const std::size_t count : {std::size_t{3}, std::size_t{5000}}) {
        Bytes own = values_of(dtype, group.rank(), 0, count);
        Bytes copied = own;
        group.broadcast(view(copied, dtype), size - 1);
        EXPECT_EQ(copied, values_of(dtype, size - 1, 0, count));

        Bytes all(ranks * own.size());
        group.all_gather_into_tensor(view(all, dtype), view(own, dtype));
        Bytes wanted;
        for (int peer = 0; peer < size; ++peer) {
          const Bytes part = values_of(dtype, peer, 0, count);
          wanted.insert(wanted.end(), part.begin(), part.end());
        }
        EXPECT_EQ(all, wanted);

        // Part i of each rank goes to rank i.
        Bytes input = values_of(dtype, group.rank(), 0, ranks * count);
        Bytes output(input.size());
        group.all_to_all_single(view(output, dtype), view(input, dtype));
        wanted.clear();
        for (int peer = 0; peer < size; ++peer) {
          const Bytes part = values_of(dtype, peer, rank * count, count);
          wanted.insert(wanted.end(), part.begin(), part.end());
        }
        EXPECT_EQ(output, wanted) << to_string(dtype);
      }
    }
  }));
}

TEST_P(Collectives, AllGatherOfUnequalShapes) {
  const int size = GetParam();
  expect_success(in_groups(size, [&](const ProcessGroup& group) {
    for (const std::size_t base : lengths) {
      const auto length = [base](int rank) { return rank == 0 ? 0 : base + static_cast<std::size_t>(rank); };
      std::vector<Bytes> outputs;
      outputs.reserve(static_cast<std::size_t>(size));
      std::vector<Tensor> parts;
      for (int rank = 0; rank < size; ++rank) {
        outputs.emplace_back(length(rank));
        parts.push_back(view(outputs.back(), DType::uint8));
      }
      Bytes input = values_of(DType::uint8, group.rank(), 0, length(group.rank()));
      group.all_gather(parts, view(input, DType::uint8));
      for (int rank = 0; rank < size; ++rank) {
        EXPECT_EQ(outputs[static_cast<std::size_t>(rank)], values_of(DType::uint8, rank, 0, length(rank)));
      }
    }
  }));
}

TEST_P(Collectives, AllToAllOfAnySizes) {
  const int size = GetParam();
  expect_success(in_groups(size, [&](const ProcessGroup& group) {
    for (const std::size_t base : lengths) {
      // Different in both directions, and for some pairs nothing.
      const auto length = [base](int from, int to) {
        return base / static_cast<std::size_t>(1 + to) + static_cast<std::size_t>(from > to ? from : 0);
      };
      std::vector<std::vector<float>> in;
      std::vector<std::vector<float>> out;
      std::vector<Tensor> inputs;
      std::vector<Tensor> outputs;
      const int rank = group.rank();
      for (int peer = 0; peer < size; ++peer) {
        in.emplace_back(length(rank, peer), static_cast<float>(rank * 10 + peer));
        out.emplace_back(length(peer, rank), -1.0F);
      }
      for (std::vector<float>& part : in) inputs.push_back(Tensor::of(part));
      for (std::vector<float>& part : out) outputs.push_back(Tensor::of(part));
      group.all_to_all(outputs, inputs);
      for (int peer = 0; peer < size; ++peer) {
        const std::vector<float> wanted(length(peer, rank), static_cast<float>(peer * 10 + rank));
        EXPECT_EQ(out[static_cast<std::size_t>(peer)], wanted);
      }
    }
  }));
}

TEST_P(Collectives, CoalescedFormsAreAsTheSingleOnes) {
  const int size = GetParam();
  const std::size_t ranks = static_cast<std::size_t>(size);
  expect_success(in_groups(size, [&](const ProcessGroup& group) {
    const std::vector<std::size_t> counts = {3, 0, 1, 9000, 50'000, 2};  // short and long ones mixed
    std::vector<std::vector<float>> values;
    std::vector<std::vector<float>> gathered;
    std::vector<std::vector<int>> scattered;
    std::vector<std::vector<int>> parts;
    for (const std::size_t count : counts) {
      values.emplace_back(count, static_cast<float>(group.rank() + 1));
      gathered.emplace_back(ranks * count);
      parts.emplace_back(ranks * count, group.rank());
      scattered.emplace_back(count);
    }
    const float total = static_cast<float>(size * (size + 1) / 2);
    const int ranks_total = size * (size - 1) / 2;
    const auto check = [&] {
      for (std::size_t i = 0; i < counts.size(); ++i) {
        EXPECT_EQ(values[i], std::vector<float>(counts[i], total));
        EXPECT_EQ(scattered[i], std::vector<int>(counts[i], ranks_total));
        for (std::size_t k = 0; k < gathered[i].size(); ++k) {
          ASSERT_EQ(gathered[i][k], static_cast<float>(k / counts[i] + 1));
        }
      }
    };
    const auto tensors = [](auto& vectors) {
      std::vector<Tensor> result;
      for (auto& one : vectors) result.push_back(Tensor::of(one));
      return result;
    };
    const std::vector<std::vector<float>> own = values;
    group.all_gather_into_tensor_coalesced(tensors(gathered), tensors(values));
    group.reduce_scatter_tensor_coalesced(tensors(scattered), tensors(parts));
    group.all_reduce_coalesced(tensors(values));
    check();

    // The same through a scope, asynchronous.
    std::vector<std::vector<float>> inputs = own;
    values = own;
    for (auto& one : gathered) std::ranges::fill(one, 0.0F);
    for (auto& one : scattered) std::ranges::fill(one, -1);
    Coalescing together(group);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      together.all_gather_into_tensor(Tensor::of(gathered[i]), Tensor::of(inputs[i]));
      together.reduce_scatter_tensor(Tensor::of(scattered[i]), Tensor::of(parts[i]));
    }
    for (auto& one : values) together.all_reduce(Tensor::of(one));
    OperationOptions async;
    async.async_op = true;
    const Work work = together.end(async);
    work.wait();
    EXPECT_TRUE(work.is_success());
    check();
    EXPECT_TRUE(Coalescing(group).end().is_success());  // nothing
  }));
}

// All of them at once in flight: they run in the order of the calls.
TEST_P(Collectives, AsynchronousOnesCompleteInOrder) {
  const int size = GetParam();
  const std::size_t ranks = static_cast<std::size_t>(size);
  expect_success(in_groups(size, [&](const ProcessGroup& group) {
    OperationOptions async;
    async.async_op = true;
    std::vector<int> value(5000, 1);
    std::vector<int> all(ranks * value.size());
    std::vector<int> back(value.size());
    std::vector<Work> works;
    for (int round = 0; round < 5; ++round) {
      works.push_back(group.reduce(Tensor::of(value), 0, ReduceOp::sum, async));
      works.push_back(group.broadcast(Tensor::of(value), 0, async));
      works.push_back(group.all_gather_into_tensor(Tensor::of(all), Tensor::of(value), async));
      works.push_back(group.reduce_scatter_tensor(Tensor::of(back), Tensor::of(all), ReduceOp::max, async));
      works.push_back(group.broadcast(Tensor::of(back), size - 1, async));
    }
    for (const Work& work : works) work.wait();
    int wanted = 1;
    for (int round = 0; round < 5; ++round) wanted *= size;
    EXPECT_EQ(back, std::vector<int>(back.size(), wanted));
    EXPECT_EQ(value, back);
  }));
}

// Sums of the 16-bit types: one rounding at most for each rank that is added, and the same bits everywhere.
template <class Half>
void expect_one_rounding_per_rank(int size, std::size_t count, double unit) {
  std::vector<std::vector<Half>> results(static_cast<std::size_t>(size), std::vector<Half>(count));
  const auto value = [](int rank, std::size_t i) {
    return Half::from(1.0F + static_cast<float>((i * 7919 + static_cast<std::size_t>(rank) * 104729) % 1000) /
                                 997.0F);
  };
  expect_success(in_groups(size, [&](const ProcessGroup& group) {
    std::vector<Half>& own = results[static_cast<std::size_t>(group.rank())];
    for (std::size_t i = 0; i < count; ++i) own[i] = value(group.rank(), i);
    group.all_reduce(Tensor::of(own));
  }));
  for (std::size_t i = 0; i < count; ++i) {
    double exact = 0;
    for (int rank = 0; rank < size; ++rank) exact += static_cast<double>(value(rank, i).to_float());
    const double error = std::abs(static_cast<double>(results[0][i].to_float()) - exact);
    // Each of size-1 roundings is at most half a unit in the last place of a value not above the sum.
    ASSERT_LE(error, (size - 1) * unit / 2 * exact * 1.01) << i;
  }
  for (const std::vector<Half>& result : results) EXPECT_TRUE(test::same_bits(result, results[0]));
}

TEST_P(Collectives, HalfPrecisionSumsAreRoundedOncePerRank) {
  for (const std::size_t count : {std::size_t{100}, std::size_t{50'000}}) {
    expect_one_rounding_per_rank<Float16>(GetParam(), count, 0x1p-10);
    expect_one_rounding_per_rank<BFloat16>(GetParam(), count, 0x1p-7);
  }
}

// As on GPUs, in whichever order the ranks are added.
TEST_P(Collectives, Float8SumsSaturate) {
  expect_success(in_groups(GetParam(), [&](const ProcessGroup& group) {
    std::vector<Float8E4M3> values(50'000, Float8E4M3::from(-256));
    group.all_reduce(Tensor::of(values));
    EXPECT_EQ(values, std::vector(values.size(), Float8E4M3::from(GetParam() == 1 ? -256 : -448)));
  }));
}

}  // namespace
}  // namespace dlaunch::internal
