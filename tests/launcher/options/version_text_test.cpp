#include "launcher/options/version_text.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

TEST(VersionText, NamesTheCommit) {
  EXPECT_EQ(version_text("0.2.0", "abcdef123456-dirty"), "dlaunch 0.2.0 (commit abcdef123456-dirty)\n");
}

TEST(VersionText, IsTheVersionAloneIfTheCommitIsUnknown) {
  EXPECT_EQ(version_text("0.2.0", ""), "dlaunch 0.2.0\n");
}

}  // namespace
}  // namespace dlaunch::launcher
