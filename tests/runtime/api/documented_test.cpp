// The examples that torch.distributed's documentation shows with their results: the same inputs, the same
// outputs, on every backend for the CPU.

#include <dlaunch/distributed.h>
#include <dlaunch/threads.h>
#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace {

using dlaunch::ProcessGroup;
using dlaunch::Tensor;
using Complex = std::complex<float>;
using Numbers = std::vector<std::int64_t>;
using ComplexNumbers = std::vector<Complex>;

// (1+1j) * n for each n.
ComplexNumbers diagonal(const Numbers& numbers) {
  ComplexNumbers result;
  for (const std::int64_t n : numbers) result.emplace_back(static_cast<float>(n), static_cast<float>(n));
  return result;
}

template <class T>
std::vector<Tensor> views(std::vector<std::vector<T>>& parts) {
  std::vector<Tensor> result;
  for (std::vector<T>& part : parts) result.push_back(Tensor::of(part));
  return result;
}

// A vector cut in pieces of these lengths.
template <class T>
std::vector<std::vector<T>> cut(const std::vector<T>& whole, const Numbers& lengths) {
  std::vector<std::vector<T>> parts;
  auto begin = whole.begin();
  for (const std::int64_t length : lengths) {
    parts.emplace_back(begin, begin + length);
    begin += length;
  }
  return parts;
}

class Documented : public testing::TestWithParam<std::string> {
 protected:
  static void on_ranks(int size, const std::function<void(const ProcessGroup&)>& body) {
    dlaunch::run_ranks_as_threads(size, [&](int) {
      dlaunch::InitOptions options;
      options.backend = GetParam();
      dlaunch::init_process_group(options);
      body(dlaunch::default_group());
      dlaunch::destroy_process_group();
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, Documented, testing::Values("threads", "gloo"),
                         [](const auto& backend) { return backend.param; });

TEST_P(Documented, AllReduce) {
  on_ranks(2, [](const ProcessGroup& group) {
    const Numbers own = group.rank() == 0 ? Numbers{1, 2} : Numbers{3, 4};
    Numbers whole = own;
    group.all_reduce(Tensor::of(whole));
    EXPECT_EQ(whole, (Numbers{4, 6}));
    ComplexNumbers complex = diagonal(own);
    group.all_reduce(Tensor::of(complex));
    EXPECT_EQ(complex, diagonal({4, 6}));
  });
}

TEST_P(Documented, AllGather) {
  on_ranks(2, [](const ProcessGroup& group) {
    const Numbers own = group.rank() == 0 ? Numbers{1, 2} : Numbers{3, 4};
    std::vector<Numbers> all(2, Numbers(2));
    group.all_gather(views(all), Tensor::of(own));
    EXPECT_EQ(all, (std::vector<Numbers>{{1, 2}, {3, 4}}));
    const ComplexNumbers complex = diagonal(own);
    std::vector<ComplexNumbers> all_complex(2, ComplexNumbers(2));
    group.all_gather(views(all_complex), Tensor::of(complex));
    EXPECT_EQ(all_complex, (std::vector<ComplexNumbers>{diagonal({1, 2}), diagonal({3, 4})}));
  });
}

TEST_P(Documented, AllGatherIntoTensor) {
  on_ranks(2, [](const ProcessGroup& group) {
    const Numbers own = {1 + 2 * group.rank(), 2 + 2 * group.rank()};
    Numbers all(4);
    group.all_gather_into_tensor(Tensor::of(all), Tensor::of(own));  // concatenated
    EXPECT_EQ(all, (Numbers{1, 2, 3, 4}));
    Numbers stacked(4);
    group.all_gather_into_tensor(Tensor::from(stacked.data(), {2, 2}), Tensor::of(own));
    EXPECT_EQ(stacked, all);
  });
}

TEST_P(Documented, Scatter) {
  on_ranks(2, [](const ProcessGroup& group) {
    std::vector<float> output(2);
    std::vector<std::vector<float>> list = {{1, 1}, {5, 5}};
    group.scatter(Tensor::of(output), group.rank() == 0 ? views(list) : std::vector<Tensor>(), 0);
    EXPECT_EQ(output, group.rank() == 0 ? (std::vector<float>{1, 1}) : (std::vector<float>{5, 5}));
  });
}

TEST_P(Documented, ReduceScatterTensor) {
  on_ranks(2, [](const ProcessGroup& group) {
    Numbers input = {0, 1, 2, 3};
    const Numbers wanted = group.rank() == 0 ? Numbers{0, 2} : Numbers{4, 6};
    Numbers output(2);
    group.reduce_scatter_tensor(Tensor::of(output), Tensor::of(input));
    EXPECT_EQ(output, wanted);
    output = {0, 0};
    group.reduce_scatter_tensor(Tensor::of(output), Tensor::from(input.data(), {2, 2}));
    EXPECT_EQ(output, wanted);
  });
}

// The tables of four ranks for parts that are not equal, by rank.
const std::vector<Numbers> uneven_inputs = {{0, 1, 2, 3, 4, 5},
                                            {10, 11, 12, 13, 14, 15, 16, 17, 18},
                                            {20, 21, 22, 23, 24},
                                            {30, 31, 32, 33, 34, 35, 36}};
const std::vector<Numbers> input_splits = {{2, 2, 1, 1}, {3, 2, 2, 2}, {2, 1, 1, 1}, {2, 2, 2, 1}};
const std::vector<Numbers> output_splits = {{2, 3, 2, 2}, {2, 2, 1, 2}, {1, 2, 1, 2}, {1, 2, 1, 1}};
const std::vector<Numbers> uneven_outputs = {{0, 1, 10, 11, 12, 20, 21, 30, 31},
                                             {2, 3, 13, 14, 22, 32, 33},
                                             {4, 15, 16, 23, 34, 35},
                                             {5, 17, 18, 24, 36}};
const std::vector<Numbers> equal_outputs = {{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}};

Numbers four_from(int first) {
  Numbers numbers(4);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

TEST_P(Documented, AllToAllSingle) {
  on_ranks(4, [](const ProcessGroup& group) {
    const std::size_t rank = static_cast<std::size_t>(group.rank());
    const Numbers equal = four_from(4 * group.rank());
    Numbers output(4);
    group.all_to_all_single(Tensor::of(output), Tensor::of(equal));
    EXPECT_EQ(output, equal_outputs[rank]);

    output.resize(uneven_outputs[rank].size());
    group.all_to_all_single(Tensor::of(output), Tensor::of(uneven_inputs[rank]), output_splits[rank],
                            input_splits[rank]);
    EXPECT_EQ(output, uneven_outputs[rank]);

    const ComplexNumbers complex = diagonal(four_from(1 + 4 * group.rank()));
    ComplexNumbers complex_output(4);
    group.all_to_all_single(Tensor::of(complex_output), Tensor::of(complex));
    const std::int64_t first = group.rank() + 1;
    EXPECT_EQ(complex_output, diagonal({first, first + 4, first + 8, first + 12}));
  });
}

TEST_P(Documented, AllToAllOfLists) {
  on_ranks(4, [](const ProcessGroup& group) {
    const std::size_t rank = static_cast<std::size_t>(group.rank());
    const Numbers ones(4, 1);
    auto inputs = cut(four_from(4 * group.rank()), ones);
    auto outputs = std::vector<Numbers>(4, Numbers(1));
    group.all_to_all(views(outputs), views(inputs));
    EXPECT_EQ(outputs, cut(equal_outputs[rank], ones));

    inputs = cut(uneven_inputs[rank], input_splits[rank]);
    outputs = cut(Numbers(uneven_outputs[rank].size()), output_splits[rank]);
    group.all_to_all(views(outputs), views(inputs));
    EXPECT_EQ(outputs, cut(uneven_outputs[rank], output_splits[rank]));

    auto complex_inputs = cut(diagonal(four_from(1 + 4 * group.rank())), ones);
    auto complex_outputs = std::vector<ComplexNumbers>(4, ComplexNumbers(1));
    group.all_to_all(views(complex_outputs), views(complex_inputs));
    const std::int64_t first = group.rank() + 1;
    EXPECT_EQ(complex_outputs, cut(diagonal({first, first + 4, first + 8, first + 12}), ones));
  });
}

TEST_P(Documented, MonitoredBarrier) {
  on_ranks(2, [](const ProcessGroup& group) {
    if (group.rank() == 1) return;
    try {
      group.monitored_barrier(std::chrono::milliseconds(20));
      ADD_FAILURE() << "rank 1 has not come";
    } catch (const dlaunch::DistNetworkError& e) {
      EXPECT_NE(std::string(e.what()).find("Rank 1 failed to pass monitoredBarrier in 20 ms"),
                std::string::npos)
          << e.what();
    }
  });
}

}  // namespace
