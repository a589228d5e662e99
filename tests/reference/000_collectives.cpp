// Document 000, the examples of the collectives on two ranks, with the values that it prints.
#include "tests/reference/printed.h"

using namespace reference;

namespace {

void all_reduce(int rank) {
  Ints tensor = arange(2, 1 + 2 * rank);
  expect_by_rank(shown(tensor), {"tensor([1, 2])", "tensor([3, 4])"});
  dist::all_reduce(dist::Tensor::of(tensor), dist::ReduceOp::sum);
  expect(shown(tensor), "tensor([4, 6])");

  Complexes complex = complex_range(2, 2 * rank);
  expect_by_rank(shown(complex), {"tensor([1.+1.j, 2.+2.j])", "tensor([3.+3.j, 4.+4.j])"});
  dist::all_reduce(dist::Tensor::of(complex), dist::ReduceOp::sum);
  expect(shown(complex), "tensor([4.+4.j, 6.+6.j])");
}

void all_gather(int rank) {
  std::vector<Ints> tensor_list(2, Ints(2));
  expect(shown(tensor_list), "[tensor([0, 0]), tensor([0, 0])]");
  Ints tensor = arange(2, 1 + 2 * rank);
  dist::all_gather(tensors(tensor_list), dist::Tensor::of(tensor));
  expect(shown(tensor_list), "[tensor([1, 2]), tensor([3, 4])]");

  std::vector<Complexes> complex_list(2, Complexes(2));
  expect(shown(complex_list), "[tensor([0.+0.j, 0.+0.j]), tensor([0.+0.j, 0.+0.j])]");
  Complexes complex = complex_range(2, 2 * rank);
  dist::all_gather(tensors(complex_list), dist::Tensor::of(complex));
  expect(shown(complex_list), "[tensor([1.+1.j, 2.+2.j]), tensor([3.+3.j, 4.+4.j])]");
}

// Printed for CUDA tensors; gloo offers it for the CPU's.
void all_gather_into_tensor(int rank, int size) {
  Ints tensor_in = arange(2, 1 + 2 * rank);
  Ints tensor_out(static_cast<std::size_t>(2 * size));
  dist::all_gather_into_tensor(dist::Tensor::of(tensor_out), dist::Tensor::of(tensor_in));
  expect(shown(tensor_out), "tensor([1, 2, 3, 4])");
  Ints stack(tensor_out.size());
  const std::int64_t shape[] = {size, 2};
  dist::all_gather_into_tensor(dist::Tensor(stack.data(), dist::DType::int64, shape),
                               dist::Tensor::of(tensor_in));
  expect(shown_in_rows(stack, 2), "tensor([[1, 2],\n [3, 4]])");
}

void reduce_scatter_tensor(int size) {
  Ints tensor_out(2);
  Ints tensor_in = arange(2 * size);
  expect(shown(tensor_in), "tensor([0, 1, 2, 3])");
  dist::reduce_scatter_tensor(dist::Tensor::of(tensor_out), dist::Tensor::of(tensor_in));
  expect_by_rank(shown(tensor_out), {"tensor([0, 2])", "tensor([4, 6])"});
  const std::int64_t shape[] = {size, 2};
  expect(shown_in_rows(tensor_in, 2), "tensor([[0, 1],\n [2, 3]])");
  tensor_out = {0, 0};
  dist::reduce_scatter_tensor(dist::Tensor::of(tensor_out),
                              dist::Tensor(tensor_in.data(), dist::DType::int64, shape));
  expect_by_rank(shown(tensor_out), {"tensor([0, 2])", "tensor([4, 6])"});
}

void scatter(int rank) {
  Floats t_ones(2, 1);
  Floats t_fives(2, 5);
  Floats output_tensor(2);
  std::vector<dist::Tensor> scatter_list;
  if (rank == 0) scatter_list = {dist::Tensor::of(t_ones), dist::Tensor::of(t_fives)};
  dist::scatter(dist::Tensor::of(output_tensor), scatter_list, 0);
  expect_by_rank(shown(output_tensor), {"tensor([1., 1.])", "tensor([5., 5.])"});
}

void batch_isend_irecv(int rank, int size) {
  Floats send_tensor = {static_cast<float>(2 * rank), static_cast<float>(1 + 2 * rank)};
  Floats recv_tensor(2);
  using Kind = dist::P2POp::Kind;
  const dist::P2POp send_op{Kind::isend, dist::Tensor::of(send_tensor), (rank + 1) % size};
  const dist::P2POp recv_op{Kind::irecv, dist::Tensor::of(recv_tensor), (rank - 1 + size) % size};
  for (const dist::Work& req : dist::batch_isend_irecv(std::vector{send_op, recv_op})) req.wait();
  expect_by_rank(shown(recv_tensor), {"tensor([2, 3])", "tensor([0, 1])"});
}

// With CUDA streams the value would be 1 or 101 without the wait.
void asynchronous(int rank) {
  Ints output = {rank};
  dist::CollectiveOptions options;
  options.async_op = true;
  const dist::Work handle = dist::all_reduce(dist::Tensor::of(output), dist::ReduceOp::sum, options);
  handle.wait();
  require(handle.is_completed(), "is_completed() after wait()");
  output[0] += 100;
  expect(shown(output), "tensor([101])");
}

}  // namespace

int main() {
  return run([](int rank, int size) {
    all_reduce(rank);
    all_gather(rank);
    all_gather_into_tensor(rank, size);
    reduce_scatter_tensor(size);
    scatter(rank);
    batch_isend_irecv(rank, size);
    asynchronous(rank);
  });
}
