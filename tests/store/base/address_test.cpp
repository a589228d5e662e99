#include "store/base/address.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

namespace dlaunch::store {
namespace {

TEST(Address, ParsesHostsWithAndWithoutAPort) {
  const std::pair<std::string_view, Address> cases[] = {{"node1", {"node1", 29500}},
                                                        {"node1:80", {"node1", 80}},
                                                        {"10.0.0.1:0", {"10.0.0.1", 0}},
                                                        {"[::1]", {"::1", 29500}},
                                                        {"[::1]:80", {"::1", 80}},
                                                        {"[fe80::1%eth0]:1", {"fe80::1%eth0", 1}},
                                                        {"a-b_c.d:65535", {"a-b_c.d", 65535}}};
  for (const auto& [text, expected] : cases) {
    const auto address = parse_address(text, 29500);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(*address, expected) << text;
  }
}

TEST(Address, RejectsWithTheReason) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", "the host is missing"},
      {":80", "the host is missing"},
      {"node1:", "the port is missing"},
      {"[::1]:", "the port is missing"},
      {"::1", "an IPv6 address needs brackets"},
      {"node1:80:81", "it has more than one port"},
      {"[::1", "the bracket is not closed"},
      {"[::1]80", "a colon must follow the bracket"},
      {"tcp://node1:80", "it is a URL"},
      {"a b:1", "not a valid host name"},
      {"node1:65536", "the port is not a number from 0 to 65535"},
      {"node1:-1", "the port is not a number from 0 to 65535"},
      {"node1:80x", "the port is not a number from 0 to 65535"}};
  for (const auto& [text, why] : cases) {
    const auto address = parse_address(text, 1);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_EQ(address.error().why, why) << text;
    EXPECT_EQ(address.error().kind, ErrorKind::invalid);
  }
}

TEST(Address, TextParsesBackToItself) {
  for (const Address& address : {Address{"node1", 80}, Address{"::1", 0}, Address{"fe80::1%eth0", 65535}})
    EXPECT_EQ(*parse_address(to_string(address), 1), address);
}

TEST(Address, LoopbackIsANumberOrLocalhost) {
  for (const std::string host : {"localhost", "127.0.0.1", "127.255.0.3", "::1", "0:0:0:0:0:0:0:1"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const std::string host :
       {"", "localhost2", "128.0.0.1", "127.example.com", "127.", "::", "::2", "node1"})
    EXPECT_FALSE(is_loopback(host)) << host;
  const std::vector<Address> all{{"127.0.0.1", 1}, {"::1", 1}, {"10.0.0.1", 1}};
  EXPECT_TRUE(are_loopback(std::span(all).first(2)));
  EXPECT_FALSE(are_loopback(all));
}

}  // namespace
}  // namespace dlaunch::store
