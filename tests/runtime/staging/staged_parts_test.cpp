#include "runtime/staging/staged_parts.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace dlaunch::internal {
namespace {

using Way = StagedTensor::Way;
using Copies = std::vector<DeviceCopies::Copy>;

constexpr Device on_device{Device::Kind::cuda, 1};

// Elements of `tensor` that lie in `memory`: begin and count.
std::string place_of(const Tensor& tensor, const std::vector<float>& memory) {
  return std::to_string(static_cast<float*>(tensor.data()) - memory.data()) + "+" +
         std::to_string(tensor.numel());
}

std::string places_of(const std::vector<Tensor>& parts, const std::vector<float>& memory) {
  std::string text;
  for (const Tensor& part : parts) text += (text.empty() ? "" : " ") + place_of(part, memory);
  return text;
}

std::string sizes_of(const Copies& copies) {
  std::string text;
  for (const DeviceCopies::Copy& copy : copies)
    text += (text.empty() ? "" : " ") + std::to_string(copy.bytes);
  return text;
}

TEST(CutInParts, ShortTensorsStayWhole) {
  std::vector<float> memory(6);
  const Tensor tensor = Tensor::from(memory.data(), {2, 3}, on_device);
  const std::vector<Tensor> parts = cut_in_parts(tensor, 24);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts.front().to_string(), "float32[2, 3] on cuda:1");
  EXPECT_EQ(cut_in_parts(Tensor::from(memory.data(), {0}, on_device), 24).size(), 1U);
}

TEST(CutInParts, LongOnesAreCutAtElements) {
  std::vector<float> memory(7);
  const Tensor tensor = Tensor::from(memory.data(), {7}, on_device);
  EXPECT_EQ(places_of(cut_in_parts(tensor, 12), memory), "0+3 3+3 6+1");
  EXPECT_EQ(places_of(cut_in_parts(tensor, 14), memory), "0+3 3+3 6+1");
  EXPECT_EQ(places_of(cut_in_parts(tensor, 16), memory), "0+4 4+3");
  EXPECT_EQ(cut_in_parts(tensor, 12)[1].to_string(), "float32[3] on cuda:1");
}

// A part has 16 bits for its number.
TEST(CutInParts, PartsGrowWhenThereWouldBeTooMany) {
  std::vector<std::uint8_t> memory(200'000);
  const auto parts =
      cut_in_parts(Tensor::from(memory.data(), {static_cast<std::int64_t>(memory.size())}, on_device), 1);
  EXPECT_EQ(parts.front().numel(), 4U);
  EXPECT_EQ(parts.size(), 50'000U);
}

TEST(StagedPart, EachTensorHasItsPlaceOnTheHost) {
  std::vector<float> device(8);
  alignas(16) std::array<std::byte, 64> host{};
  const StagedPart part{{{Tensor::from(device.data(), {3}, on_device), Way::to_host},
                         {Tensor::from(device.data() + 3, {0}, on_device), Way::to_device},
                         {Tensor::from(device.data() + 4, {2, 2}, on_device), Way::both}},
                        {}};
  EXPECT_EQ(part.bytes(), 32U);
  const std::vector<Tensor> tensors = part.on_host(host.data());
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_EQ(tensors[0].to_string(), "float32[3] on cpu");
  EXPECT_EQ(tensors[0].data(), host.data());
  EXPECT_EQ(tensors[1].to_string(), "float32[0] on cpu");
  EXPECT_EQ(tensors[2].to_string(), "float32[2, 2] on cpu");
  EXPECT_EQ(tensors[2].data(), host.data() + 16);

  const Copies to_host = part.copies_to_host(host.data());
  EXPECT_EQ(sizes_of(to_host), "12 16");
  EXPECT_EQ(to_host[1].device, device.data() + 4);
  EXPECT_EQ(to_host[1].host, host.data() + 16);
  EXPECT_EQ(sizes_of(part.copies_to_device(host.data())), "16");
}

TEST(StagedPart, CopiesOfNeighboursAreOne) {
  std::vector<float> device(16);
  alignas(16) std::array<std::byte, 64> host{};
  const auto four = [&](std::size_t begin) { return Tensor::from(device.data() + begin, {4}, on_device); };
  const StagedPart neighbours{{{four(0), Way::to_host}, {four(4), Way::to_host}, {four(8), Way::to_device}},
                              {}};
  EXPECT_EQ(sizes_of(neighbours.copies_to_host(host.data())), "32");
  const StagedPart apart{{{four(4), Way::to_host}, {four(0), Way::to_host}, {four(8), Way::to_host}}, {}};
  EXPECT_EQ(sizes_of(apart.copies_to_host(host.data())), "16 16 16");
}

}  // namespace
}  // namespace dlaunch::internal
