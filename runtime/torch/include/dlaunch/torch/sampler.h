// Which data each rank takes, for the data loaders of LibTorch.
//
//   dlaunch::torch::DistributedSampler sampler(dataset.size().value(), dlaunch::get_world_size(),
//                                              dlaunch::get_rank());
//   auto loader = torch::data::make_data_loader(std::move(dataset), sampler, 64);
//   for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
//     sampler.set_epoch(epoch);
//     for (auto& batch : *loader) train(batch);
//   }
#pragma once

#include <torch/data/samplers/base.h>
#include <torch/serialize/archive.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dlaunch/export.h"
#include "dlaunch/sampler.h"

namespace dlaunch::torch {
inline namespace v1 {

// dlaunch::DistributedSampler, and so the order of PyTorch's Python one. A data loader takes a copy: copies
// share the epoch, and each has its own place in it. Used by one thread.
class DLAUNCH_EXPORT DistributedSampler : public ::torch::data::samplers::Sampler<> {
 public:
  DistributedSampler(std::size_t size, int ranks, int rank, SamplerOptions options = {});

  // Takes effect with the next pass through the data: the loader calls reset() before it.
  void set_epoch(std::uint64_t epoch) { *epoch_ = epoch; }

  // Begins the epoch; with a size: of a dataset that has so many items now.
  void reset(c10::optional<std::size_t> new_size = c10::nullopt) override;
  // The next items of this rank, `batch_size` at most; none: the epoch is over.
  c10::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;
  // The epoch, and how many items of it next() has returned.
  void save(::torch::serialize::OutputArchive& archive) const override;
  void load(::torch::serialize::InputArchive& archive) override;

 private:
  std::size_t size_;
  int ranks_;
  int rank_;
  SamplerOptions options_;
  std::shared_ptr<std::uint64_t> epoch_;
  std::vector<std::size_t> indices_;
  std::size_t taken_ = 0;
};

}  // namespace v1
}  // namespace dlaunch::torch
