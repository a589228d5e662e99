#include "store/server/store_access.h"

#include <gtest/gtest.h>

namespace dlaunch::store {
namespace {

StoreAccess with_key(bool needs_tls = false) {
  return StoreAccess({"key", [] { return std::string("nonce"); },
                      [](const std::string& host) { return host == "10.0.0.1"; }, needs_tls});
}

TEST(StoreAccess, AStoreWithoutAKeyAnswersEveryone) {
  const StoreAccess access{StoreKey{}};
  EXPECT_FALSE(access.has_key());
  EXPECT_TRUE(access.admits("192.0.2.1"));
  EXPECT_FALSE(access.is_own("192.0.2.1"));
  EXPECT_TRUE(access.is_own("127.0.0.1"));
}

TEST(StoreAccess, WithAKeyOnlyThisMachinesAddressesNeedNoProof) {
  const StoreAccess access = with_key();
  for (const char* own : {"127.0.0.1", "127.9.9.9", "::1", "10.0.0.1"})
    EXPECT_TRUE(access.admits(own)) << own;
  for (const char* other : {"10.0.0.11", "10.0.0.2", "1270.0.0.1", "::2", ""})
    EXPECT_FALSE(access.admits(other)) << other;
}

TEST(StoreAccess, ATrustedAddressIsAnsweredUntilTheTrustEnds) {
  StoreAccess access = with_key();
  access.trust("10.0.0.2");
  EXPECT_TRUE(access.admits("10.0.0.2"));
  EXPECT_FALSE(access.is_own("10.0.0.2"));
  access.clear_trusted();
  EXPECT_FALSE(access.admits("10.0.0.2"));
}

TEST(StoreAccess, WithTlsNoOtherMachineIsTrusted) {
  StoreAccess access = with_key(true);
  access.trust("10.0.0.2");
  EXPECT_FALSE(access.admits("10.0.0.2"));
  EXPECT_TRUE(access.admits("10.0.0.1"));
}

}  // namespace
}  // namespace dlaunch::store
