#include <string>

#include "dlaunch/error.h"
#include "dlaunch/sampler.h"
#include "runtime/data_parallel/permutation.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {

DistributedSampler::DistributedSampler(std::size_t size, int ranks, int rank, SamplerOptions options)
    : size_(size),
      ranks_(static_cast<std::size_t>(ranks)),
      rank_(static_cast<std::size_t>(rank)),
      options_(options) {
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    throw DistError("DistributedSampler: rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                    " does not exist");
  }
  if (size >> 32U != 0)
    throw DistError("DistributedSampler: there are " + std::to_string(size) + " items; the limit is 2^32");
}

std::size_t DistributedSampler::size() const {
  const std::size_t each = size_ / ranks_;
  const std::size_t rest = size_ % ranks_;
  switch (options_.rest) {
    case SamplerOptions::Rest::pad:
      return each + (rest > 0 ? 1 : 0);
    case SamplerOptions::Rest::drop:
      return each;
    case SamplerOptions::Rest::keep:
      return each + (rank_ < rest ? 1 : 0);
  }
  return each;
}

std::vector<std::size_t> DistributedSampler::indices(std::uint64_t epoch) const {
  const std::vector<std::size_t> order =
      options_.shuffle ? torch_permutation(size_, options_.seed + epoch) : std::vector<std::size_t>();
  std::vector<std::size_t> own(size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::size_t place =
        (rank_ + i * ranks_) % size_;  // padding begins again, more than once if need be
    own[i] = options_.shuffle ? order[place] : place;
  }
  return own;
}

}  // namespace v1
}  // namespace dlaunch
