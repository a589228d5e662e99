// A worker for tests of how many bytes pass between hosts: calls one collective TIMES times, each with 1 MiB
// as the largest tensor of a rank, and then a barrier.
//
//   crossing_worker COLLECTIVE TIMES

#include <dlaunch/distributed.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace {

using dlaunch::Tensor;

struct Tensors {
  const std::size_t ranks = static_cast<std::size_t>(dlaunch::get_world_size());
  const std::size_t part = (std::size_t{1} << 18U) / ranks;
  std::vector<float> from = std::vector<float>(part * ranks);
  std::vector<float> to = std::vector<float>(part * ranks);
  const Tensor whole = Tensor::of(from);
  const Tensor first_of_from = parts_of(from).front();
  const Tensor first_of_to = parts_of(to).front();
  const std::vector<Tensor> inputs = parts_of(from);
  const std::vector<Tensor> outputs = parts_of(to);

  [[nodiscard]] std::vector<Tensor> parts_of(std::vector<float>& values) const {
    std::vector<Tensor> parts;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      parts.push_back(Tensor::of(std::span(values).subspan(rank * part, part)));
    return parts;
  }
  // What only rank 0 passes.
  static std::span<const Tensor> at_root(const std::vector<Tensor>& parts) {
    return dlaunch::get_rank() == 0 ? std::span(parts) : std::span<const Tensor>();
  }
};

void call(const std::string& collective, int times) {
  const Tensors t;
  const std::map<std::string, std::function<void()>> calls = {
      {"all_reduce", [&] { dlaunch::all_reduce(t.whole); }},
      {"broadcast", [&] { dlaunch::broadcast(t.whole, 0); }},
      {"reduce", [&] { dlaunch::reduce(t.whole, 0); }},
      {"all_gather", [&] { dlaunch::all_gather(t.outputs, t.first_of_from); }},
      {"reduce_scatter", [&] { dlaunch::reduce_scatter(t.first_of_to, t.inputs); }},
      {"all_to_all", [&] { dlaunch::all_to_all(t.outputs, t.inputs); }},
      {"gather", [&] { dlaunch::gather(Tensors::at_root(t.outputs), t.first_of_from, 0); }},
      {"scatter", [&] { dlaunch::scatter(t.first_of_to, Tensors::at_root(t.inputs), 0); }}};
  for (int i = 0; i < times; ++i) calls.at(collective)();
  dlaunch::barrier();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    dlaunch::init_process_group();
    call(argv[1], std::atoi(argv[2]));
    dlaunch::destroy_process_group();
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
