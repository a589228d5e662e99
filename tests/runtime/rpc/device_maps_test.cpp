// Device maps as the workers have published them.

#include "runtime/rpc/device_maps.h"

#include <gtest/gtest.h>

namespace dlaunch::internal {
namespace {

WorkerContact worker(const std::string& name, WorkerDevices devices) {
  return {.name = name, .host = "b", .contact = {}, .devices = std::move(devices)};
}

std::string why(const WorkerDevices& first, const WorkerDevices& second = {2, {}, {}}) {
  const std::vector<WorkerContact> all = {worker("a", first), worker("b", second)};
  return why_wrong_devices(all[0], all, true);
}

TEST(DeviceMaps, GoodOnes) {
  EXPECT_EQ(why({}), "");
  EXPECT_EQ(why({2, {1, 0}, {{"b", {{0, 1}, {1, 0}}}, {"a", {{0, 0}}}}}), "");
  EXPECT_EQ(why({2, {}, {{"b", {}}}}), "");
  EXPECT_EQ(why({2, {}, {{"b", {{0, 1}}}}}, {2, {1}, {}}), "");
}

TEST(DeviceMaps, DevicesThatAreNotThere) {
  EXPECT_EQ(
      why({2, {2}, {}}),
      "the devices in the RpcOptions of worker a name device 2 of worker a, which has 2 devices: 0 to 1");
  EXPECT_EQ(why({1, {0, 0}, {}}), "the devices in the RpcOptions of worker a name device 0 twice");
  EXPECT_EQ(why({1, {}, {{"b", {{-1, 0}}}}}),
            "the device map of worker a for worker b names device -1 of worker a, which has 1 device: 0");
  EXPECT_EQ(
      why({1, {}, {{"b", {{0, 2}}}}}),
      "the device map of worker a for worker b names device 2 of worker b, which has 2 devices: 0 to 1");
  EXPECT_EQ(
      why({0, {}, {{"b", {{0, 0}}}}}),
      "the device map of worker a for worker b names device 0 of worker a, which has no devices: CUDA and "
      "libdlaunch_torch show it some");
}

TEST(DeviceMaps, DevicesThatAreNotUsed) {
  const std::string rest = ", which is not one of the devices in that worker's RpcOptions";
  EXPECT_EQ(why({2, {1}, {{"b", {{0, 0}}}}}),
            "the device map of worker a for worker b names device 0 of worker a" + rest);
  EXPECT_EQ(why({2, {}, {{"b", {{0, 0}}}}}, {2, {1}, {}}),
            "the device map of worker a for worker b names device 0 of worker b" + rest);
}

TEST(DeviceMaps, OnesThatCannotBeInverted) {
  EXPECT_EQ(
      why({2, {}, {{"b", {{0, 1}, {1, 1}}}}}),
      "the device map of worker a for worker b has device 1 for the devices 0 and 1: results could not go "
      "back; give each a device of its own");
}

TEST(DeviceMaps, UnknownWorkers) {
  EXPECT_EQ(why({2, {}, {{"c", {{0, 1}}}}}), "worker a has a device map for worker 'c', and there are a, b");
  // It may come later.
  const WorkerContact a = worker("a", {2, {}, {{"c", {{0, 1023}}}}});
  EXPECT_EQ(why_wrong_devices(a, {a}, false), "");
  for (const int device : {-1, 1024}) {
    const WorkerContact wrong = worker("a", {2, {}, {{"c", {{0, device}}}}});
    EXPECT_EQ(
        why_wrong_devices(wrong, {wrong}, false),
        "the device map of worker a for worker c names device " + std::to_string(device) + " of worker c");
  }
}

TEST(CallerDevices, AreThoseOfTheInverseMap) {
  int questions = 0;
  CallerDevices devices("b", [&](std::uint32_t id) -> std::optional<WorkerContact> {
    ++questions;
    if (id != 0) return std::nullopt;
    return worker("a", {3, {}, {{"b", {{0, 1}, {2, 0}}}, {"c", {{1, 2}}}}});
  });
  EXPECT_EQ(devices.find(0, 1), 0);
  EXPECT_EQ(devices.find(0, 0), 2);
  EXPECT_EQ(devices.find(0, 2), std::nullopt);
  EXPECT_EQ(questions, 1);
  EXPECT_EQ(
      devices.why_none(0, 2),
      "the device map of worker a for worker b does not name it: call set_device_map(\"b\", {{its device, "
      "2}}) on the RpcOptions of worker a, or return its cpu()");
  EXPECT_EQ(devices.find(7, 0), std::nullopt);
}

}  // namespace
}  // namespace dlaunch::internal
