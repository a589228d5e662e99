#include "launcher/doctor/peer_list.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

std::string shown(const std::string& text) {
  const auto peers = parse_peers(text);
  if (!peers)
    return (peers.error().kind == ErrorKind::invalid ? "mistake: " : "error: ") + peers.error().message();
  std::string out;
  for (const HostEntry& host : peers->hosts) out += host.name + " ";
  for (const Address& port : peers->ports) out += to_string(port) + " ";
  return out;
}

TEST(PeerList, HostsAndPorts) {
  EXPECT_EQ(shown("a"), "a ");
  EXPECT_EQ(shown("a,alice@b,c[1-2,5]"), "a alice@b c1 c2 c5 ");
  EXPECT_EQ(shown("fe80::7"), "fe80::7 ");
  EXPECT_EQ(shown("a,b:29500,[fe80::7]:29400,[fe80::8]"), "a fe80::8 b:29500 [fe80::7]:29400 ");
  EXPECT_EQ(shown("a,b,a"), "a b ");
}

TEST(PeerList, MistakesAreNamed) {
  EXPECT_EQ(shown(""),
            "mistake: --peer is empty; give HOST, HOST,HOST or HOST:PORT; is a shell variable empty?");
  EXPECT_EQ(shown("a,,b").find("mistake: --peer=a,,b has an empty part"), 0U);
  EXPECT_EQ(shown("h:99999").find("mistake: --peer: "), 0U);
  EXPECT_EQ(shown("h:0").find("mistake: --peer: port 0"), 0U);
  EXPECT_EQ(shown("-oProxyCommand=x").find("mistake: --peer: '-oProxyCommand=x' is not a host"), 0U);
}

}  // namespace
}  // namespace dlaunch::launcher
