#include "launcher/startup/name_services.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

TEST(NameServices, FilesAndDnsAreBuiltIn) {
  EXPECT_FALSE(needs_modules("hosts: files dns\n", "hosts"));
  EXPECT_FALSE(needs_modules("passwd: files systemd\n\n  hosts:\tdns [!UNAVAIL=return] files", "hosts"));
  EXPECT_FALSE(needs_modules("hosts: files [ NOTFOUND=continue  SUCCESS=return ] dns # mdns4\r\n", "hosts"));
}

TEST(NameServices, OtherServicesAreModules) {
  EXPECT_TRUE(needs_modules("hosts: files mdns4_minimal [NOTFOUND=return] dns\n", "hosts"));
  EXPECT_TRUE(needs_modules("hosts: mymachines resolve [!UNAVAIL=return] files myhostname dns", "hosts"));
  EXPECT_TRUE(needs_modules("# hosts: files\nnetworks: files\nhosts:files ldap\n", "hosts"));
}

TEST(NameServices, MissingEntryHasTheDefault) {
  EXPECT_FALSE(needs_modules("", "hosts"));
  EXPECT_FALSE(needs_modules("passwd: files ldap\n", "hosts"));
  EXPECT_FALSE(needs_modules("hosts:", "hosts"));
  EXPECT_FALSE(needs_modules("no line of it\n:\n", "hosts"));
}

TEST(NameServices, AddressesArePrintedThreeTimesAndTakenOnce) {
  using Addresses = std::vector<std::string>;
  EXPECT_EQ(
      addresses_in("2001:db8::7     STREAM n7.cluster\n2001:db8::7     DGRAM  \n"
                   "2001:db8::7     RAW    \n10.0.0.7        STREAM \n10.0.0.7        DGRAM\n10.0.0.7 RAW"),
      (Addresses{"2001:db8::7", "10.0.0.7"}));
  EXPECT_EQ(addresses_in(""), Addresses{});
  EXPECT_EQ(addresses_in("\n \n"), Addresses{});
}

}  // namespace
}  // namespace dlaunch::launcher
