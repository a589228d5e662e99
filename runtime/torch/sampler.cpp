#include "dlaunch/torch/sampler.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace dlaunch::torch {
inline namespace v1 {

DistributedSampler::DistributedSampler(std::size_t size, int ranks, int rank, SamplerOptions options)
    : size_(size), ranks_(ranks), rank_(rank), options_(options), epoch_(std::make_shared<std::uint64_t>(0)) {
  reset();
}

void DistributedSampler::reset(c10::optional<std::size_t> new_size) {
  size_ = new_size.value_or(size_);
  indices_ = dlaunch::DistributedSampler(size_, ranks_, rank_, options_).indices(*epoch_);
  taken_ = 0;
}

c10::optional<std::vector<std::size_t>> DistributedSampler::next(std::size_t batch_size) {
  const std::size_t end = std::min(indices_.size(), taken_ + batch_size);
  if (taken_ == end) return c10::nullopt;
  std::vector<std::size_t> batch(indices_.begin() + static_cast<std::ptrdiff_t>(taken_),
                                 indices_.begin() + static_cast<std::ptrdiff_t>(end));
  taken_ = end;
  return batch;
}

void DistributedSampler::save(::torch::serialize::OutputArchive& archive) const {
  archive.write("epoch", at::scalar_tensor(static_cast<std::int64_t>(*epoch_), at::kLong));
  archive.write("taken", at::scalar_tensor(static_cast<std::int64_t>(taken_), at::kLong));
}

void DistributedSampler::load(::torch::serialize::InputArchive& archive) {
  at::Tensor epoch = at::empty({}, at::kLong);
  at::Tensor taken = at::empty({}, at::kLong);
  archive.read("epoch", epoch);
  archive.read("taken", taken);
  *epoch_ = static_cast<std::uint64_t>(epoch.item<std::int64_t>());
  reset();
  taken_ = std::min(indices_.size(), static_cast<std::size_t>(taken.item<std::int64_t>()));
}

}  // namespace v1
}  // namespace dlaunch::torch
