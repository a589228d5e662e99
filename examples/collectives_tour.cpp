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

std::size_t ranks() { return static_cast<std::size_t>(dlaunch::get_world_size()); }

// What a rank has becomes everybody's, or one's.
void gathering() {
  const int rank = dlaunch::get_rank();
  Numbers own = {rank + 1};
  Numbers all(ranks());
  dlaunch::all_gather_into_tensor(Tensor::of(all), Tensor::of(own));
  show("all_gather", all);  // 1 2 3

  // Rank i gives i + 1 numbers.
  std::vector<Numbers> rows;
  std::vector<Tensor> places;
  places.reserve(ranks());
  for (std::size_t i = 0; i < ranks(); ++i) rows.emplace_back(i + 1);
  for (Numbers& row : rows) places.push_back(Tensor::of(row));
  Numbers given(own.size() + static_cast<std::size_t>(rank), rank);
  dlaunch::all_gather(places, Tensor::of(given));
  show("all_gather, unequal", rows.back());  // 2 2 2

  // Rank 0 collects, and gives back.
  Numbers collected(rank == 0 ? ranks() : 0);
  dlaunch::gather(each(collected), Tensor::of(own), 0);
  show("gather to 0", collected);  // 1 2 3
  Numbers back(1);
  dlaunch::scatter(Tensor::of(back), each(collected), 0);
  show("scatter from 0", back);  // 1

  Numbers copied = own;
  dlaunch::broadcast(Tensor::of(copied), dlaunch::get_world_size() - 1);
  show("broadcast from last", copied);  // 3
}

// What all have is added up.
void reducing() {
  Numbers own = {dlaunch::get_rank() + 1};
  Numbers sum = own;
  dlaunch::all_reduce(Tensor::of(sum));
  show("all_reduce", sum);  // 6

  Numbers largest = own;
  dlaunch::reduce(Tensor::of(largest), 0, dlaunch::ReduceOp::max);
  show("reduce max to 0", largest);  // 3

  // Everybody adds up the part that is its own: of one tensor, or of a list.
  Numbers all(ranks());
  for (std::size_t i = 0; i < ranks(); ++i) all[i] = static_cast<int>(i) + 1;
  Numbers part(1);
  dlaunch::reduce_scatter_tensor(Tensor::of(part), Tensor::of(all));
  show("reduce_scatter", part);  // 3
  dlaunch::reduce_scatter(Tensor::of(part), each(all), dlaunch::ReduceOp::product);
  show("reduce_scatter product", part);  // 1
}

// Row i of the rank's table goes to rank i: the table of all ranks is transposed.
void exchanging() {
  Numbers row(ranks());
  for (std::size_t i = 0; i < ranks(); ++i) row[i] = 10 * dlaunch::get_rank() + static_cast<int>(i);
  Numbers column(ranks());
  dlaunch::all_to_all_single(Tensor::of(column), Tensor::of(row));
  show("all_to_all", column);  // 0 10 20
  Numbers again(ranks());
  dlaunch::all_to_all(each(again), each(column));
  show("all_to_all, and back", again);  // 0 1 2
}

// Several small tensors as one message.
void coalesced() {
  const int rank = dlaunch::get_rank();
  Numbers two = {rank, 10 * rank};
  dlaunch::all_reduce_coalesced(each(two));
  show("all_reduce, 2 tensors", two);  // 3 30

  Numbers all(2 * ranks());
  std::vector<Tensor> halves = {Tensor::from(all.data(), {dlaunch::get_world_size()}),
                                Tensor::from(all.data() + ranks(), {dlaunch::get_world_size()})};
  Numbers own = {rank, -rank};
  dlaunch::all_gather_into_tensor_coalesced(halves, each(own));
  show("all_gather, 2 tensors", all);  // 0 1 2 0 -1 -2

  Numbers parts(2);
  dlaunch::reduce_scatter_tensor_coalesced(each(parts), halves);
  show("reduce_scatter, 2", parts);  // 0 0
}

// Of any type that can be made bytes, and of any size.
void objects() {
  const int rank = dlaunch::get_rank();
  const auto show_text = [&](const char* what, const std::string& text) {
    if (rank == 0) std::printf("%-22s %s\n", what, text.c_str());
  };
  const std::string name = "worker " + std::to_string(rank);
  show_text("all_gather_object", dlaunch::all_gather_object(name).back());  // worker 2
  const std::vector<std::string> names = dlaunch::gather_object(name, 0);
  show_text("scatter_object_list", dlaunch::scatter_object_list(names, 0));  // worker 0
  std::vector<std::string> list = {name, "and " + name};
  dlaunch::broadcast_object_list(list, dlaunch::get_world_size() - 1);
  show_text("broadcast_object_list", list.back());  // and worker 2
}

void tour() {
  gathering();
  reducing();
  exchanging();
  coalesced();
  objects();
  dlaunch::barrier();
  dlaunch::monitored_barrier();  // names those who do not come
  if (dlaunch::get_rank() == 0) std::printf("all %d ranks came through\n", dlaunch::get_world_size());
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
