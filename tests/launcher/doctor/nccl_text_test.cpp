#include "launcher/doctor/nccl_text.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

using namespace std::string_view_literals;  // NOLINT(google-build-using-namespace)

TEST(NcclText, TheVersionIsAmongTheBytesOfTheLibrary) {
  EXPECT_EQ(nccl_version_in("\x7f"
                            "ELF\0NCCL version %d\0NCCL version 2.32.3+cuda13.4\n\0more"sv),
            (NcclVersion{23203, "13.4"}));
  EXPECT_EQ(nccl_version_in("NCCL version 2.18.1\0"sv), (NcclVersion{21801, ""}));
  // A text of newer ones, which some builds have alone.
  EXPECT_EQ(nccl_version_in("NCCL version 2.28.9 compiled with CUDA 13.0\0"sv), (NcclVersion{22809, "13.0"}));
}

TEST(NcclText, WhatIsCutOrWrongIsNoVersion) {
  EXPECT_EQ(nccl_version_in("NCCL version 2.32.3+cuda1"), std::nullopt) << "the rest is not read yet";
  EXPECT_EQ(nccl_version_in("NCCL version 2.32\0"sv), std::nullopt);
  EXPECT_EQ(nccl_version_in("NCCL version 2.100.3\0"sv), std::nullopt);
  EXPECT_EQ(nccl_version_in("NCCL version 99999999999.1.1\0"sv), std::nullopt);
  EXPECT_EQ(nccl_version_in(""), std::nullopt);
}

TEST(NcclText, AsText) { EXPECT_EQ(nccl_version_text(23203), "2.32.3"); }

TEST(NcclText, TheLoadersCacheHasPaths) {
  const auto cache =
      "glibc-ld.so.cache1.1\0\3\0\0\0/lib/libnccl.so.2\0/lib/libnccl.so\0/opt/a/libnccl.so.2\0libnccl.so.2\0"
      "/lib/libnccl.so.2\0/x/otherlibnccl.so.2"sv;
  EXPECT_EQ(cached_libraries(cache, "libnccl.so.2"),
            (std::vector<std::string>{"/lib/libnccl.so.2", "/opt/a/libnccl.so.2"}));
}

}  // namespace
}  // namespace dlaunch::launcher
