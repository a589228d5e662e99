#include "launcher/machine/local_addresses.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/un.h>

namespace dlaunch::launcher {
namespace {

TEST(LocalAddresses, IncludeLoopback) { EXPECT_TRUE(local_addresses().contains("127.0.0.1")); }

TEST(LocalAddresses, AreNumbers) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  inet_pton(AF_INET, "192.0.2.7", &four.sin_addr);
  EXPECT_EQ(numeric(reinterpret_cast<const sockaddr*>(&four)), "192.0.2.7");
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  inet_pton(AF_INET6, "2001:db8:0:0::7", &six.sin6_addr);
  EXPECT_EQ(numeric(reinterpret_cast<const sockaddr*>(&six)), "2001:db8::7");
}

TEST(LocalAddresses, OtherFamiliesHaveNone) {
  EXPECT_EQ(numeric(nullptr), "");
  sockaddr_un local{};
  local.sun_family = AF_UNIX;
  EXPECT_EQ(numeric(reinterpret_cast<const sockaddr*>(&local)), "");
}

}  // namespace
}  // namespace dlaunch::launcher
