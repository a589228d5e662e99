// Which data each rank takes. No communication: all ranks compute the same order from the same seed.
//
//   dlaunch::DistributedSampler sampler(images.size(), dlaunch::get_world_size(), dlaunch::get_rank());
//   for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
//     for (std::size_t index : sampler.indices(epoch)) train(images[index]);
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dlaunch/export.h"

namespace dlaunch {
inline namespace v1 {

struct SamplerOptions {
  // What becomes of the items that do not divide by the number of ranks.
  enum class Rest : std::uint8_t {
    pad,   // ranks that have one less take an item from the beginning again: all ranks have as many
    drop,  // they are left out of this epoch: all ranks have as many
    keep,  // each item once: the first ranks have one more. For evaluation
  };

  bool shuffle = true;
  std::uint64_t seed = 0;  // all ranks give the same
  Rest rest = Rest::pad;
};

// torch.utils.data.distributed.DistributedSampler. Rank r takes the items at r, r + ranks, r + 2 * ranks, ...
// of the epoch's order, which depends on nothing but size, seed and epoch. It is that of PyTorch with the
// same seed: of torch.randperm(size) after manual_seed(seed + epoch), on a CPU, if size is below
// 214,748,364; PyTorch uses another algorithm above.
// Immutable; any thread.
class DLAUNCH_EXPORT DistributedSampler {
 public:
  // DistError unless ranks > 0, 0 <= rank < ranks, and size < 2^32.
  DistributedSampler(std::size_t size, int ranks, int rank, SamplerOptions options = {});

  // This rank's items in the order in which it takes them.
  [[nodiscard]] std::vector<std::size_t> indices(std::uint64_t epoch) const;
  // How many: the same in each epoch.
  [[nodiscard]] std::size_t size() const;

 private:
  std::size_t size_;  // of the data
  std::size_t ranks_;
  std::size_t rank_;
  SamplerOptions options_;
};

// Cuts data at random into parts of given sizes: DataPartitioner of PyTorch's tutorial "Writing Distributed
// Applications with PyTorch", with the same parts for the same seed (Python's random.shuffle). Immutable; any
// thread.
class DLAUNCH_EXPORT DataPartitioner {
 public:
  // `fractions`: of the data, at least 0 and together at most 1; part i has floor(fractions[i] * size) items.
  // DistError for others, and if size is 2^32 or more.
  DataPartitioner(std::size_t size, std::span<const double> fractions, std::uint64_t seed = 1234);

  // The items of a part. DistError if there is no such part. Valid as long as the partitioner.
  [[nodiscard]] std::span<const std::size_t> use(std::size_t part) const;
  [[nodiscard]] std::size_t parts() const;

 private:
  std::vector<std::size_t> order_;
  std::vector<std::size_t> ends_;  // of the parts, in order_
};

}  // namespace v1
}  // namespace dlaunch
