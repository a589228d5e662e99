// Document 000, the examples of all_to_all_single and all_to_all on four ranks, with the values that it
// prints.
#include <numeric>

#include "tests/reference/printed.h"

using namespace reference;

namespace {

const std::vector<std::vector<std::int64_t>> uneven_inputs = {arange(6), arange(9, 10), arange(5, 20),
                                                              arange(7, 30)};
const std::vector<std::vector<std::int64_t>> input_splits = {
    {2, 2, 1, 1}, {3, 2, 2, 2}, {2, 1, 1, 1}, {2, 2, 2, 1}};
const std::vector<std::vector<std::int64_t>> output_splits = {
    {2, 3, 2, 2}, {2, 2, 1, 2}, {1, 2, 1, 2}, {1, 2, 1, 1}};

void single(int rank, int size) {
  Ints input = arange(4, rank * 4);
  expect_by_rank(shown(input), {"tensor([0, 1, 2, 3])", "tensor([4, 5, 6, 7])", "tensor([8, 9, 10, 11])",
                                "tensor([12, 13, 14, 15])"});
  const std::vector<std::string> printed = {"tensor([0, 4, 8, 12])", "tensor([1, 5, 9, 13])",
                                            "tensor([2, 6, 10, 14])", "tensor([3, 7, 11, 15])"};
  Ints output(4);
  dist::all_to_all_single(dist::Tensor::of(output), dist::Tensor::of(input));
  expect_by_rank(shown(output), printed);

  // "Essentially, it is similar to following operation".
  std::vector<Ints> scatter_list = split(input, {1, 1, 1, 1});
  std::vector<Ints> gather_list(4, Ints(1));
  for (int i = 0; i < size; ++i) {
    dist::scatter(dist::Tensor::of(gather_list[static_cast<std::size_t>(i)]),
                  i == rank ? tensors(scatter_list) : std::vector<dist::Tensor>(), i);
  }
  Ints joined;
  for (const Ints& part : gather_list) joined.push_back(part[0]);
  expect_by_rank(shown(joined), printed);
}

void single_with_splits(std::size_t rank) {
  Ints input = uneven_inputs[rank];
  expect_by_rank(shown(input), {"tensor([0, 1, 2, 3, 4, 5])", "tensor([10, 11, 12, 13, 14, 15, 16, 17, 18])",
                                "tensor([20, 21, 22, 23, 24])", "tensor([30, 31, 32, 33, 34, 35, 36])"});
  const Ints& in = input_splits[rank];
  const Ints& out = output_splits[rank];
  Ints output(static_cast<std::size_t>(std::accumulate(out.begin(), out.end(), std::int64_t{0})));
  dist::all_to_all_single(dist::Tensor::of(output), dist::Tensor::of(input), out, in);
  expect_by_rank(shown(output),
                 {"tensor([ 0,  1, 10, 11, 12, 20, 21, 30, 31])", "tensor([ 2,  3, 13, 14, 22, 32, 33])",
                  "tensor([ 4, 15, 16, 23, 34, 35])", "tensor([ 5, 17, 18, 24, 36])"});
}

void single_of_complex(int rank) {
  Complexes input = complex_range(4, 4 * rank);
  expect_by_rank(shown(input),
                 {"tensor([1+1j, 2+2j, 3+3j, 4+4j])", "tensor([5+5j, 6+6j, 7+7j, 8+8j])",
                  "tensor([9+9j, 10+10j, 11+11j, 12+12j])", "tensor([13+13j, 14+14j, 15+15j, 16+16j])"});
  Complexes output(4);  // the document's torch.int64 cannot be meant
  dist::all_to_all_single(dist::Tensor::of(output), dist::Tensor::of(input));
  expect_by_rank(shown(output),
                 {"tensor([1+1j, 5+5j, 9+9j, 13+13j])", "tensor([2+2j, 6+6j, 10+10j, 14+14j])",
                  "tensor([3+3j, 7+7j, 11+11j, 15+15j])", "tensor([4+4j, 8+8j, 12+12j, 16+16j])"});
}

void lists(int rank, int size) {
  std::vector<Ints> input = split(arange(4, rank * 4), {1, 1, 1, 1});
  expect_by_rank(shown(input), {"[tensor([0]), tensor([1]), tensor([2]), tensor([3])]",
                                "[tensor([4]), tensor([5]), tensor([6]), tensor([7])]",
                                "[tensor([8]), tensor([9]), tensor([10]), tensor([11])]",
                                "[tensor([12]), tensor([13]), tensor([14]), tensor([15])]"});
  const std::vector<std::string> printed = {"[tensor([0]), tensor([4]), tensor([8]), tensor([12])]",
                                            "[tensor([1]), tensor([5]), tensor([9]), tensor([13])]",
                                            "[tensor([2]), tensor([6]), tensor([10]), tensor([14])]",
                                            "[tensor([3]), tensor([7]), tensor([11]), tensor([15])]"};
  std::vector<Ints> output(4, Ints(1));
  dist::all_to_all(tensors(output), tensors(input));
  expect_by_rank(shown(output), printed);

  std::vector<Ints> gather_list(4, Ints(1));
  for (int i = 0; i < size; ++i) {
    dist::scatter(dist::Tensor::of(gather_list[static_cast<std::size_t>(i)]),
                  i == rank ? tensors(input) : std::vector<dist::Tensor>(), i);
  }
  expect_by_rank(shown(gather_list), printed);
}

void lists_with_splits(std::size_t rank) {
  std::vector<Ints> input = split(uneven_inputs[rank], input_splits[rank]);
  expect_by_rank(shown(input),
                 {"[tensor([0, 1]), tensor([2, 3]), tensor([4]), tensor([5])]",
                  "[tensor([10, 11, 12]), tensor([13, 14]), tensor([15, 16]), tensor([17, 18])]",
                  "[tensor([20, 21]), tensor([22]), tensor([23]), tensor([24])]",
                  "[tensor([30, 31]), tensor([32, 33]), tensor([34, 35]), tensor([36])]"});
  std::vector<Ints> output;
  for (const std::int64_t size : output_splits[rank]) output.emplace_back(size);
  dist::all_to_all(tensors(output), tensors(input));
  expect_by_rank(shown(output), {"[tensor([0, 1]), tensor([10, 11, 12]), tensor([20, 21]), tensor([30, 31])]",
                                 "[tensor([2, 3]), tensor([13, 14]), tensor([22]), tensor([32, 33])]",
                                 "[tensor([4]), tensor([15, 16]), tensor([23]), tensor([34, 35])]",
                                 "[tensor([5]), tensor([17, 18]), tensor([24]), tensor([36])]"});
}

void lists_of_complex(int rank) {
  std::vector<Complexes> input = split(complex_range(4, 4 * rank), {1, 1, 1, 1});
  expect_by_rank(shown(input), {"[tensor([1+1j]), tensor([2+2j]), tensor([3+3j]), tensor([4+4j])]",
                                "[tensor([5+5j]), tensor([6+6j]), tensor([7+7j]), tensor([8+8j])]",
                                "[tensor([9+9j]), tensor([10+10j]), tensor([11+11j]), tensor([12+12j])]",
                                "[tensor([13+13j]), tensor([14+14j]), tensor([15+15j]), tensor([16+16j])]"});
  std::vector<Complexes> output(4, Complexes(1));
  dist::all_to_all(tensors(output), tensors(input));
  expect_by_rank(shown(output), {"[tensor([1+1j]), tensor([5+5j]), tensor([9+9j]), tensor([13+13j])]",
                                 "[tensor([2+2j]), tensor([6+6j]), tensor([10+10j]), tensor([14+14j])]",
                                 "[tensor([3+3j]), tensor([7+7j]), tensor([11+11j]), tensor([15+15j])]",
                                 "[tensor([4+4j]), tensor([8+8j]), tensor([12+12j]), tensor([16+16j])]"});
}

}  // namespace

int main() {
  return run([](int rank, int size) {
    single(rank, size);
    single_with_splits(static_cast<std::size_t>(rank));
    single_of_complex(rank);
    lists(rank, size);
    lists_with_splits(static_cast<std::size_t>(rank));
    lists_of_complex(rank);
  });
}
