// Memory that the operations of a group reuse.

#include "runtime/collectives/workspace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <stdexcept>

namespace dlaunch::internal {
namespace {

TEST(Workspace, IsAlignedAndAsLongAsAskedFor) {
  Workspace workspace;
  for (const std::size_t size : {1U, 63U, 64U, 1000U, 5U, 100'000U}) {
    const std::span<std::byte> memory = workspace.scratch(size);
    EXPECT_EQ(memory.size(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 64, 0U);
    std::ranges::fill(memory, std::byte{1});  // AddressSanitizer looks at its end
  }
  EXPECT_TRUE(workspace.scratch(0).empty());
}

// No operation waits for fresh pages if an earlier one was as long.
TEST(Workspace, ShorterRequestsUseTheSameMemory) {
  Workspace workspace;
  const std::byte* const memory = workspace.scratch(1000).data();
  EXPECT_EQ(workspace.scratch(10).data(), memory);
  EXPECT_EQ(workspace.scratch(1000).data(), memory);
}

TEST(Workspace, AreasAreApart) {
  Workspace workspace;
  constexpr std::size_t areas = Workspace::of_hosts + 1;
  constexpr std::size_t size = 100;
  for (std::size_t area = 0; area < areas; ++area) {
    std::ranges::fill(workspace.scratch(size, area), static_cast<std::byte>(area));
  }
  workspace.scratch(100'000, 1);  // another area may move
  for (std::size_t area = 0; area < areas; ++area) {
    if (area == 1) continue;
    const std::span<std::byte> memory = workspace.scratch(size, area);
    EXPECT_EQ(std::ranges::count(memory, static_cast<std::byte>(area)), static_cast<std::ptrdiff_t>(size));
  }
  EXPECT_THROW((void)workspace.scratch(1, areas), std::out_of_range);
}

}  // namespace
}  // namespace dlaunch::internal
