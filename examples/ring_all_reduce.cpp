// all_reduce built by hand from isend and recv: how the ring algorithm works.
//
// The vector is cut into as many chunks as there are ranks. In the first round of steps each rank passes a
// chunk to its right neighbour, which adds its own values: after size-1 steps every rank holds one chunk that
// is finished. In the second round the finished chunks go once around. Each rank sends 2 * (size-1) / size of
// the vector, however many ranks there are.
//
//   $ dlaunch --nproc-per-node=4 ring_all_reduce
#include <dlaunch/distributed.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <span>
#include <vector>

namespace {

using dlaunch::Tensor;

class Ring {
 public:
  explicit Ring(std::span<float> values)
      : values_(values), rank_(dlaunch::get_rank()), size_(dlaunch::get_world_size()) {}

  void all_reduce() {
    std::vector<float> received(values_.size() / static_cast<std::size_t>(size_) + 1);
    for (int step = 0; step + 1 < size_; ++step) {
      const std::span<float> target = chunk(rank_ - step - 1);
      const std::span<float> arrived = std::span(received).first(target.size());
      pass_on(chunk(rank_ - step), arrived);
      std::ranges::transform(target, arrived, target.begin(), std::plus<>());
    }
    for (int step = 0; step + 1 < size_; ++step) pass_on(chunk(rank_ - step + 1), chunk(rank_ - step));
  }

 private:
  std::span<float> chunk(int number) const {
    const std::size_t size = static_cast<std::size_t>(size_);
    const std::size_t i = static_cast<std::size_t>((number % size_ + size_) % size_);
    const std::size_t begin = values_.size() * i / size;
    return values_.subspan(begin, values_.size() * (i + 1) / size - begin);
  }

  // Both at once: if every rank sent first and received then, nobody would be there to receive.
  void pass_on(std::span<float> out, std::span<float> in) const {
    const dlaunch::Work sent = dlaunch::isend(Tensor::of(out), (rank_ + 1) % size_);
    dlaunch::recv(Tensor::of(in), (rank_ + size_ - 1) % size_);
    sent.wait();
  }

  const std::span<float> values_;
  const int rank_;
  const int size_;
};

}  // namespace

int main() {
  try {
    dlaunch::init_process_group();
    const int rank = dlaunch::get_rank();
    const int size = dlaunch::get_world_size();

    std::vector<float> by_hand(100'003);
    for (std::size_t i = 0; i < by_hand.size(); ++i) {
      by_hand[i] = static_cast<float>((i + static_cast<std::size_t>(rank)) % 7);
    }
    std::vector<float> by_library = by_hand;
    Ring(by_hand).all_reduce();
    dlaunch::all_reduce(Tensor::of(by_library));

    const bool same = by_hand == by_library;
    std::printf("rank %d of %d: %s\n", rank, size, same ? "the ring and all_reduce agree" : "they differ");
    dlaunch::destroy_process_group();
    return same ? 0 : 1;
  } catch (const dlaunch::DistError& error) {
    std::fprintf(stderr, "ring_all_reduce: %s\n", error.what());
    return 1;
  }
}
