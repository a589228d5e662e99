// Document 002, the test snippet of each operation on two ranks. Where the document mixes types (it sends
// int64 and receives float32, and hands all_to_all tensors for lists) the types are one here.
#include "tests/reference/printed.h"

using namespace reference;

namespace {

void messages() {
  Ints tensor = {1, 2, 3};
  if (dist::get_rank() == 0) {
    dist::send(dist::Tensor::of(tensor), 1);
  } else if (dist::get_rank() == 1) {
    Ints recv_tensor(3);
    dist::recv(dist::Tensor::of(recv_tensor), 0);
    expect(shown(recv_tensor), "tensor([1, 2, 3])");
  }
}

void collectives(int rank, int size) {
  Ints tensor = {0};
  if (rank == 0) tensor[0] += 1;  // Only rank 0 modifies the tensor
  dist::broadcast(dist::Tensor::of(tensor), 0);
  expect(shown(tensor), "tensor([1])");

  tensor = {rank + 1};
  dist::all_reduce(dist::Tensor::of(tensor), dist::ReduceOp::sum);
  expect(shown(tensor), "tensor([3])");

  tensor = {rank + 1};
  dist::reduce(dist::Tensor::of(tensor), 0, dist::ReduceOp::sum);
  if (rank == 0) expect(shown(tensor), "tensor([3])");

  tensor = {rank};
  std::vector<Ints> gather_list(static_cast<std::size_t>(size), Ints(1));
  dist::all_gather(tensors(gather_list), dist::Tensor::of(tensor));
  expect(shown(gather_list), "[tensor([0]), tensor([1])]");

  gather_list.assign(gather_list.size(), Ints(1));
  dist::gather(rank == 0 ? tensors(gather_list) : std::vector<dist::Tensor>(), dist::Tensor::of(tensor), 0);
  if (rank == 0) expect(shown(gather_list), "[tensor([0]), tensor([1])]");

  std::vector<Ints> scatter_list = {{0}, {1}};
  dist::scatter(dist::Tensor::of(tensor), rank == 0 ? tensors(scatter_list) : std::vector<dist::Tensor>(), 0);
  expect_by_rank(shown(tensor), {"tensor([0])", "tensor([1])"});
}

// The table has no tick for these with gloo.
void offered_all_the_same(int rank, int size) {
  std::vector<Ints> input(static_cast<std::size_t>(size), Ints{rank + 1});
  Ints output(1);
  dist::reduce_scatter(dist::Tensor::of(output), tensors(input), dist::ReduceOp::sum);
  expect(shown(output), "tensor([3])");

  Ints all_input(static_cast<std::size_t>(size), rank);
  Ints all_output(static_cast<std::size_t>(size));
  dist::all_to_all_single(dist::Tensor::of(all_output), dist::Tensor::of(all_input));
  expect(shown(all_output), "tensor([0, 1])");
}

}  // namespace

int main() {
  return run([](int rank, int size) {
    messages();
    collectives(rank, size);
    offered_all_the_same(rank, size);
    dist::barrier();
  });
}
