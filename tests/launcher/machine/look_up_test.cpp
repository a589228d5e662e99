#include "launcher/machine/look_up.h"

#include <gtest/gtest.h>

#include "tests/runtime/api/variable.h"

namespace dlaunch::launcher {
namespace {

TEST(LookUp, AnAddressAndAKnownNameCanBeLookedUp) {
  EXPECT_TRUE(can_look_up("localhost"));
  const test::Variable path("PATH", "/usr/bin:/bin");
  path.set("/no/such/folder");
  for (const char* address : {"127.0.0.1", "10.1.2.3", "::1", "fe80::1%eth0"})
    EXPECT_TRUE(can_look_up(address));
}

// RFC 6761: no name service has a name below "invalid".
TEST(LookUp, AnUnknownNameCannot) {
  EXPECT_FALSE(can_look_up("dlaunch-test.invalid"));
  EXPECT_FALSE(can_look_up("-s"));
  EXPECT_FALSE(can_look_up(""));
}

TEST(LookUp, WithoutGetentTheNameIsTakenAsItIs) {
  const test::Variable path("PATH", "/no/such/folder");
  EXPECT_TRUE(can_look_up("dlaunch-test.invalid"));
}

}  // namespace
}  // namespace dlaunch::launcher
