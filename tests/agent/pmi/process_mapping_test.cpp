#include "agent/pmi/process_mapping.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

TEST(ProcessMappingTest, NodesWithTheSameNumberOfRanksAreOneBlock) {
  EXPECT_EQ(process_mapping({{1, 8}}), "(vector,(0,1,8))");
  EXPECT_EQ(process_mapping({{2, 4}, {1, 3}, {5, 4}}), "(vector,(0,2,4),(2,1,3),(3,5,4))");
}

TEST(ProcessMappingTest, WhatNoClientCanReadIsLeftOut) {
  EXPECT_EQ(process_mapping({}), "");
  EXPECT_NE(process_mapping(std::vector<NodeBlock>(max_node_blocks, {1, 8})), "");
  EXPECT_EQ(process_mapping(std::vector<NodeBlock>(100, {100, 128})), "");
}

}  // namespace
}  // namespace dlaunch::agent
