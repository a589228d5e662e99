// Communication behind computation: as soon as a layer's gradient is there its all_reduce begins, while the
// next layer is still being computed. Small gradients travel together.
//
//   $ DLAUNCH_TRACE=trace.json dlaunch --nproc-per-node=2 overlap     and look at it in a trace viewer
#include <dlaunch/distributed.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace {

using dlaunch::Tensor;

constexpr int layers = 12;

// Stands for the backward pass of one layer.
std::vector<float> gradient_of(int layer) {
  const std::size_t count = layer % 3 == 0 ? 200'000 : 50;
  return std::vector<float>(count, static_cast<float>(layer + dlaunch::get_rank()));
}

}  // namespace

int main() {
  try {
    dlaunch::init_process_group();
    const int size = dlaunch::get_world_size();
    dlaunch::CollectiveOptions async;
    async.async_op = true;

    std::vector<std::vector<float>> gradients(layers);
    std::vector<dlaunch::Work> works;
    dlaunch::Coalescing small(dlaunch::default_group());
    for (int layer = layers - 1; layer >= 0; --layer) {
      std::vector<float>& gradient = gradients[static_cast<std::size_t>(layer)];
      gradient = gradient_of(layer);
      if (gradient.size() > 1000) {
        works.push_back(dlaunch::all_reduce(Tensor::of(gradient), dlaunch::ReduceOp::avg, async));
      } else {
        small.all_reduce(Tensor::of(gradient), dlaunch::ReduceOp::avg);
      }
    }
    works.push_back(small.end(async));
    for (const dlaunch::Work& work : works) work.wait();

    bool right = true;
    for (int layer = 0; layer < layers; ++layer) {
      const float wanted = static_cast<float>(layer) + static_cast<float>(size - 1) / 2;
      right &= std::ranges::all_of(gradients[static_cast<std::size_t>(layer)],
                                   [&](float value) { return std::abs(value - wanted) < 1e-4F; });
    }
    std::printf("rank %d of %d: %d gradients in %zu operations, %s\n", dlaunch::get_rank(), size, layers,
                works.size(), right ? "right" : "wrong");
    dlaunch::destroy_process_group();
    return right ? 0 : 1;
  } catch (const dlaunch::DistError& error) {
    std::fprintf(stderr, "overlap: %s\n", error.what());
    return 1;
  }
}
