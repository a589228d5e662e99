// Which images are whose turn. All ranks draw the same order of the epoch from the same seed and each takes
// its own part of every batch, so nobody has to tell anybody anything.
//
// The batch is global: its images depend on seed, epoch and step only, and the world size decides merely who
// works on which of them. A job that goes on with more or fewer workers therefore goes on with the same
// mathematics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mnist {

// A permutation of 0 .. count-1, drawn from seed and epoch; the same on every machine.
std::vector<std::uint32_t> epoch_order(std::size_t count, std::uint64_t seed, std::uint64_t epoch);

// Batches in an epoch; the last one may be smaller than `batch_size`. Requires batch_size > 0.
constexpr std::size_t steps_per_epoch(std::size_t count, std::size_t batch_size) {
  return (count + batch_size - 1) / batch_size;
}

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;  // one past the last

  [[nodiscard]] std::size_t size() const { return end - begin; }
};

// The part of `total` things that is this rank's: the parts of all ranks make up the whole without overlap,
// and their sizes differ by at most one (some are empty where there are more ranks than things). Requires
// rank < world.
constexpr Range part_of(std::size_t total, std::size_t rank, std::size_t world) {
  return {.begin = total * rank / world, .end = total * (rank + 1) / world};
}

// The images of batch `step` of an epoch's order, over all ranks. Requires step < steps_per_epoch.
std::span<const std::uint32_t> batch_of(std::span<const std::uint32_t> order, std::size_t step,
                                        std::size_t batch_size);

}  // namespace mnist
