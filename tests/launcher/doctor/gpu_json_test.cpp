#include "launcher/doctor/gpu_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/launcher/doctor/made_gpus.h"

namespace dlaunch::launcher {
namespace {

using Json = nlohmann::json;

TEST(GpuJson, AMachineWithGpus) {
  GpuFacts facts = healthy(8);
  facts.query.peer_access = {{{"GPU0", "GPU1"}, true}, {{"GPU1", "GPU0"}, false}};
  facts.query.processes = {{"0000:04:00.0", 12}};
  facts.ports = {{"mlx5_0", 1, "InfiniBand", "ACTIVE", "400 Gb/sec"}};
  const Json all = Json::parse(gpu_json(facts));
  EXPECT_EQ(all["driver"], "580.159.04");
  ASSERT_EQ(all["devices"].size(), 8U);
  EXPECT_EQ(all["devices"][3]["pcie_width"], 16);
  EXPECT_EQ(all["devices"][3]["persistence"], true);
  EXPECT_EQ(all["nccl"], (Json{{"path", "/usr/lib/libnccl.so.2"}, {"version", "2.32.3"}, {"cuda", "13.4"}}));
  EXPECT_EQ(all["processes"], (Json::array({Json{{"bus_id", "0000:04:00.0"}, {"pid", 12}}})));
  EXPECT_EQ(all["rdma_ports"][0]["rate"], "400 Gb/sec");
  // Of each GPU to seven others and eight network cards, by the cards' own names.
  EXPECT_EQ(all["links"].size(), 8U * 15U);
  EXPECT_EQ(all["links"][0], (Json{{"from", "GPU0"}, {"to", "GPU1"}, {"path", "NV"}, {"p2p", true}}));
  EXPECT_EQ(all["links"][7], (Json{{"from", "GPU0"}, {"to", "mlx5_0"}, {"path", "PXB"}}));
}

TEST(GpuJson, WhatIsNotKnownIsNull) {
  const Json all = Json::parse(gpu_json(GpuFacts{}));
  EXPECT_TRUE(all["driver"].is_null());
  EXPECT_TRUE(all["nccl"].is_null());
  EXPECT_EQ(all["devices"], Json::array());
  GpuFacts facts = healthy(1);
  facts.query.gpus[0].memory_mib.reset();
  facts.query.gpus[0].compute_mode.clear();
  const Json gpu = Json::parse(gpu_json(facts))["devices"][0];
  EXPECT_TRUE(gpu["memory_mib"].is_null());
  EXPECT_TRUE(gpu["compute_mode"].is_null());
}

}  // namespace
}  // namespace dlaunch::launcher
