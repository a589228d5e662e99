// This machine's addresses. (The choice among several machines' addresses: gloo/interfaces_test.cpp.)

#include "runtime/rendezvous/local_address.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/runtime/api/error_strings.h"
#include "tests/runtime/api/variable.h"

namespace dlaunch::internal {
namespace {

using test::Variable;
using Names = std::vector<std::string>;

TEST(NamedInterfaces, AreSeparatedByCommas) {
  const auto named = [](const char* value) {
    const Variable variable("DLAUNCH_SOCKET_IFNAME", value);
    return named_interfaces().names;
  };
  EXPECT_EQ(named("eth0"), Names{"eth0"});
  EXPECT_EQ(named("ib1,ib0"), (Names{"ib1", "ib0"}));
  EXPECT_EQ(named(" ib0 , ,ib1,"), (Names{"ib0", "ib1"}));
  EXPECT_EQ(named(","), Names{});
}

TEST(NamedInterfaces, OfAnEmptyVariableAreThoseOfTheNext) {
  EXPECT_EQ(named_interfaces().variable, "");
  const Variable gloo("GLOO_SOCKET_IFNAME", "eth1");
  EXPECT_EQ(named_interfaces().variable, "GLOO_SOCKET_IFNAME");
  {
    const Variable ours("DLAUNCH_SOCKET_IFNAME", "eth0");
    EXPECT_EQ(named_interfaces().variable, "DLAUNCH_SOCKET_IFNAME");
    EXPECT_EQ(named_interfaces().names, Names{"eth0"});
  }
  const Variable empty("DLAUNCH_SOCKET_IFNAME", "");
  EXPECT_EQ(named_interfaces().names, Names{"eth1"});
}

TEST(IsLoopback, WholeNetworksAndOneAddress) {
  for (const char* const address : {"127.0.0.1", "127.0.1.1", "127.255.255.255", "::1", "0:0:0:0:0:0:0:1"}) {
    EXPECT_TRUE(is_loopback(address)) << address;
  }
  for (const char* const address :
       {"128.0.0.1", "126.0.0.1", "10.0.0.127", "::", "::2", "fe80::1", "localhost", ""}) {
    EXPECT_FALSE(is_loopback(address)) << address;
  }
}

TEST(IsIpv6, ByItsColons) {
  EXPECT_TRUE(is_ipv6("::1"));
  EXPECT_TRUE(is_ipv6("fe80::1%eth0"));
  EXPECT_FALSE(is_ipv6("10.0.0.1"));
}

TEST(AddressesTowards, ALoopbackAddressIsReachedFromOne) {
  const Result<Addresses> addresses = addresses_towards("127.0.0.1");
  ASSERT_TRUE(addresses.ok());
  EXPECT_EQ(*addresses, Addresses{"127.0.0.1"});
}

TEST(AddressesOfInterface, AnUnknownOneNamesThoseThatThereAre) {
  const Result<Addresses> addresses = addresses_of_interface("no-such-net", {});
  ASSERT_FALSE(addresses.ok());
  const std::string text = addresses.error().message();
  EXPECT_TRUE(text.starts_with(
      "cannot use the network interface 'no-such-net': this machine has no interface of that name; it has "))
      << text;
  EXPECT_TRUE(test::contains(text, "lo")) << text;
}

TEST(AddressesOfInterface, PreferredOnesComeFirst) {
  const Result<Addresses> any = addresses_of_interface("lo", {});
  ASSERT_TRUE(any.ok()) << any.error().message();
  EXPECT_EQ(any->front(), "127.0.0.1");  // IPv4 unless IPv6 is preferred
  if (any->size() < 2) GTEST_SKIP() << "this machine has no IPv6";
  EXPECT_EQ(*addresses_of_interface("lo", {"::1"}), (Addresses{"::1", "127.0.0.1"}));
  EXPECT_EQ(*addresses_of_interface("lo", {"127.0.0.1"}), (Addresses{"127.0.0.1", "::1"}));
}

TEST(FirstOuterAddresses, AreNotLoopback) {
  const Result<Addresses> addresses = first_outer_addresses();
  if (!addresses) GTEST_SKIP() << "this machine has only a loopback interface";
  for (const std::string& address : *addresses) EXPECT_FALSE(is_loopback(address)) << address;
}

}  // namespace
}  // namespace dlaunch::internal
