// Every collective once, on a few numbers that can be checked by eye. Rank 0 prints what it sees.
//
//   $ dlaunch --nproc-per-node=3 collectives_tour
#include <dlaunch/distributed.h>
#include <dlaunch/object.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

using dlaunch::Tensor;
using Numbers = std::vector<int>;

void show(const char* what, const Numbers& numbers) {
  if (dlaunch::get_rank() != 0) return;
  std::printf("%-22s", what);
  for (const int number : numbers) std::printf(" %d", number);
  std::printf("\n");
}

// One tensor for each element.
std::vector<Tensor> each(Numbers& numbers) {
  std::vector<Tensor> tensors;
  for (int& number : numbers) tensors.push_back(Tensor::from(&number, {1}));
  return tensors;
}

void tour() {
  const int rank = dlaunch::get_rank();
  const int size = dlaunch::get_world_size();
  const std::size_t ranks = static_cast<std::size_t>(size);

  Numbers own = {rank + 1};
  Numbers all(ranks);
  dlaunch::all_gather_into_tensor(Tensor::of(all), Tensor::of(own));
  show("all_gather", all);  // 1 2 3

  Numbers sum = own;
  dlaunch::all_reduce(Tensor::of(sum));
  show("all_reduce", sum);  // 6

  Numbers largest = own;
  dlaunch::reduce(Tensor::of(largest), 0, dlaunch::ReduceOp::max);
  show("reduce max to 0", largest);  // 3

  Numbers copied = own;
  dlaunch::broadcast(Tensor::of(copied), size - 1);
  show("broadcast from last", copied);  // 3

  // Rank 0 collects, and gives back.
  Numbers collected(rank == 0 ? ranks : 0);
  dlaunch::gather(each(collected), Tensor::of(own), 0);
  show("gather to 0", collected);  // 1 2 3
  Numbers back(1);
  dlaunch::scatter(Tensor::of(back), each(collected), 0);
  show("scatter from 0", back);  // 1

  // Everybody adds up the part that is its own.
  Numbers part(1);
  dlaunch::reduce_scatter_tensor(Tensor::of(part), Tensor::of(all));
  show("reduce_scatter", part);  // 3

  // Row i of the rank's table goes to rank i: the table of all ranks is transposed.
  Numbers row(ranks);
  for (std::size_t i = 0; i < ranks; ++i) row[i] = 10 * rank + static_cast<int>(i);
  Numbers column(ranks);
  dlaunch::all_to_all_single(Tensor::of(column), Tensor::of(row));
  show("all_to_all", column);  // 0 10 20

  // Objects of any size.
  const std::string name = "worker " + std::to_string(rank);
  const std::vector<std::string> names = dlaunch::all_gather_object(name);
  if (rank == 0) std::printf("%-22s %s\n", "all_gather_object", names.back().c_str());  // worker 2

  dlaunch::monitored_barrier();
  if (rank == 0) std::printf("all %d ranks came through\n", size);
}

}  // namespace

int main() {
  try {
    dlaunch::init_process_group();
    tour();
    dlaunch::destroy_process_group();
    return 0;
  } catch (const dlaunch::DistError& error) {
    std::fprintf(stderr, "collectives_tour: %s\n", error.what());
    return 1;
  }
}
