#include "runtime/cuda/cuda_device.h"

#include <gtest/gtest.h>

#include <string>

#include "dlaunch/error.h"

namespace dlaunch::internal {
namespace {

std::string refusal(const DeviceHints& hints) {
  try {
    return "device " + std::to_string(choose_device(hints));
  } catch (const DistBackendError& e) {
    return e.what();
  }
}

TEST(ChooseDevice, TheProgramsChoiceComesFirst) {
  EXPECT_EQ(choose_device(DeviceHints{.named = 3, .current = 1, .local_rank = 2, .count = 4}), 3);
  EXPECT_EQ(choose_device(DeviceHints{.current = 1, .local_rank = 2, .count = 4}), 1);
}

TEST(ChooseDevice, ElseTheDeviceOfTheLocalRank) {
  EXPECT_EQ(choose_device(DeviceHints{.local_rank = 2, .count = 4}), 2);
  EXPECT_EQ(choose_device(DeviceHints{.count = 4}), 0);
  // Each rank sees a device of its own.
  EXPECT_EQ(choose_device(DeviceHints{.local_rank = 2, .count = 1}), 0);
}

TEST(ChooseDevice, NamesWhatIsNotThere) {
  EXPECT_EQ(refusal({.named = 4, .count = 4}), "there is no CUDA device 4: this process sees 4 CUDA devices");
  EXPECT_EQ(refusal({.named = -1, .count = 1}),
            "there is no CUDA device -1: this process sees 1 CUDA device");
  EXPECT_EQ(
      refusal({.local_rank = 2, .count = 2}),
      "there is no CUDA device for LOCAL_RANK 2: this process sees 2 CUDA devices; start fewer ranks on this "
      "node, or name a device (device_id)");
}

}  // namespace
}  // namespace dlaunch::internal
