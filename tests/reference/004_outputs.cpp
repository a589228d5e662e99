// Document 004, the functions whose output it prints, on four ranks.
#include "tests/reference/printed.h"

using namespace reference;

namespace {

const std::vector<std::string> ones_on_0_and_1 = {"tensor([1.])", "tensor([1.])", "tensor([0.])",
                                                  "tensor([0.])"};
const std::vector<std::string> own_ranks = {"tensor([0.])", "tensor([1.])", "tensor([2.])", "tensor([3.])"};
const std::string all_ranks = "[tensor([0.]), tensor([1.]), tensor([2.]), tensor([3.])]";

// All four ranks call all_reduce; the two that are no members keep their value.
void new_group() {
  const dist::ProcessGroup group = dist::new_group({0, 1});
  Floats tensor = {1};
  dist::CollectiveOptions options;
  options.group = group;
  dist::all_reduce(dist::Tensor::of(tensor), dist::ReduceOp::sum, options);
  expect_by_rank(shown(tensor), {"tensor([2.])", "tensor([2.])", "tensor([1.])", "tensor([1.])"});
}

void send(int rank) {
  Floats tensor = {0};
  if (rank == 0) {
    tensor[0] += 1;
    dist::send(dist::Tensor::of(tensor), 1);
  } else if (rank == 1) {
    dist::recv(dist::Tensor::of(tensor), 0);
  }
  expect_by_rank(shown(tensor), ones_on_0_and_1);
}

void isend(int rank) {
  Floats tensor = {0};
  dist::Work req;
  if (rank == 0) {
    tensor[0] += 1;
    req = dist::isend(dist::Tensor::of(tensor), 1);
  } else if (rank == 1) {
    req = dist::irecv(dist::Tensor::of(tensor), 0);
  }
  if (rank == 0 || rank == 1) req.wait();
  require(req.is_completed(), "is_completed() after wait()");
  expect_by_rank(shown(tensor), ones_on_0_and_1);
}

void one_tensor(int rank) {
  const float own = static_cast<float>(rank);
  Floats tensor = {rank == 0 ? 1.0F : 0.0F};
  dist::broadcast(dist::Tensor::of(tensor), 0);
  expect(shown(tensor), "tensor([1.])");

  // The document prints gloo's intermediate values on the other ranks; here these keep theirs.
  tensor = {own};
  dist::reduce(dist::Tensor::of(tensor), 0, dist::ReduceOp::sum);
  expect_by_rank(shown(tensor), {"tensor([6.])", "tensor([1.])", "tensor([2.])", "tensor([3.])"});

  tensor = {own};
  dist::all_reduce(dist::Tensor::of(tensor), dist::ReduceOp::sum);
  expect(shown(tensor), "tensor([6.])");
}

void lists(int rank, int size) {
  Floats tensor = {static_cast<float>(rank)};
  std::vector<Floats> gather_list(rank == 0 ? 4 : 0, Floats(1));
  dist::gather(tensors(gather_list), dist::Tensor::of(tensor), 0);
  expect_by_rank(shown(tensor), own_ranks);
  expect_by_rank(shown(gather_list), {all_ranks, "[]", "[]", "[]"});

  std::vector<Floats> tensor_list(4, Floats(1));
  dist::all_gather(tensors(tensor_list), dist::Tensor::of(tensor));
  expect_by_rank(shown(tensor), own_ranks);
  expect(shown(tensor_list), all_ranks);

  // The document shows the error of a gloo that does not offer it.
  std::vector<Floats> input_tensor_list;
  for (int i = 0; i < size; ++i) input_tensor_list.push_back({static_cast<float>(rank * size + i)});
  dist::all_to_all(tensors(tensor_list), tensors(input_tensor_list));
  std::vector<Floats> columns;
  for (int i = 0; i < size; ++i) columns.push_back({static_cast<float>(i * size + rank)});
  expect(shown(tensor_list), shown(columns));

  tensor = {0};
  std::vector<Floats> scatter_list;
  for (int i = 0; rank == 0 && i < size; ++i) scatter_list.push_back({static_cast<float>(i)});
  dist::scatter(dist::Tensor::of(tensor), tensors(scatter_list), 0);
  expect_by_rank(shown(scatter_list), {all_ranks, "[]", "[]", "[]"});
  expect_by_rank(shown(tensor), own_ranks);
}

void questions() {
  require(dist::is_available(), "is_available()");
  require(dist::is_initialized(), "is_initialized()");
  require(dist::BackendName("GLOO") == "gloo", "Backend('GLOO')");
  require(dist::BackendName::gloo == "gloo" && dist::BackendName::mpi == "mpi" &&
              dist::BackendName::nccl == "nccl",
          "Backend's members");
  require(dist::get_backend() == dist::BackendName::gloo, "get_backend()");
}

}  // namespace

int main() {
  return run([](int rank, int size) {
    questions();
    new_group();
    send(rank);
    isend(rank);
    one_tensor(rank);
    lists(rank, size);
    dist::barrier();
  });
}
