#include "launcher/machine/sanitize_startup.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

TEST(SanitizeStartup, FindsDescriptorsThatAnArgumentNames) {
  EXPECT_EQ(inherited_descriptors_in("--data=/dev/fd/63"), std::vector<int>{63});
  EXPECT_EQ(inherited_descriptors_in("/proc/self/fd/7,/dev/fd/12"), (std::vector<int>{12, 7}));
  EXPECT_TRUE(inherited_descriptors_in("/dev/fd/2").empty()) << "a worker has 0, 1 and 2 anyway";
  EXPECT_TRUE(inherited_descriptors_in("/dev/fd/x /dev/fd").empty());
  EXPECT_TRUE(inherited_descriptors_in("/dev/fd/99999999999").empty());
}

}  // namespace
}  // namespace dlaunch::launcher
