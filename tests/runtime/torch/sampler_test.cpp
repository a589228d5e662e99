// Each rank's data loader yields its part of the epoch.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>
#include <vector>

#include "dlaunch/torch/sampler.h"

namespace dlaunch::torch {
namespace {

class Numbers : public ::torch::data::datasets::Dataset<Numbers, std::size_t> {
 public:
  std::size_t get(std::size_t index) override { return index; }
  [[nodiscard]] c10::optional<std::size_t> size() const override { return 10; }
};

template <class Loader>
std::vector<std::size_t> pass(Loader& loader) {
  std::vector<std::size_t> items;
  for (auto& batch : loader) items.insert(items.end(), batch.begin(), batch.end());
  return items;
}

TEST(TorchSampler, ALoaderYieldsTheRanksPartOfTheEpoch) {
  for (int rank = 0; rank < 3; ++rank) {
    DistributedSampler sampler(10, 3, rank);
    auto loader = ::torch::data::make_data_loader(Numbers(), sampler, 3);
    for (const std::uint64_t epoch : {0, 1, 7}) {
      sampler.set_epoch(epoch);
      EXPECT_EQ(pass(*loader), dlaunch::DistributedSampler(10, 3, rank).indices(epoch));
    }
  }
}

TEST(TorchSampler, OptionsAndASizeThatChanges) {
  DistributedSampler sampler(10, 4, 3, {.shuffle = false, .rest = SamplerOptions::Rest::drop});
  EXPECT_EQ(sampler.next(5), (std::vector<std::size_t>{3, 7}));
  EXPECT_EQ(sampler.next(5), c10::nullopt);
  sampler.reset(12);
  EXPECT_EQ(sampler.next(5), (std::vector<std::size_t>{3, 7, 11}));
}

TEST(TorchSampler, ItsPlaceIsSaved) {
  DistributedSampler sampler(20, 2, 1);
  sampler.set_epoch(3);
  sampler.reset();
  (void)sampler.next(4);
  std::stringstream file;
  ::torch::serialize::OutputArchive out;
  sampler.save(out);
  out.save_to(file);
  ::torch::serialize::InputArchive in;
  in.load_from(file);
  DistributedSampler restored(20, 2, 1);
  restored.load(in);
  EXPECT_EQ(restored.next(100), sampler.next(100));
}

}  // namespace
}  // namespace dlaunch::torch
