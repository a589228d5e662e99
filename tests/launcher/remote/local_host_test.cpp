#include "launcher/remote/local_host.h"

#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include "launcher/machine/machine.h"

namespace dlaunch::launcher {
namespace {

bool is_here(const std::string& host) { return are_local_hosts({{host, 0}}).front(); }

TEST(LocalHosts, AreKnownByNameAndAddress) {
  EXPECT_TRUE(is_here("localhost"));
  EXPECT_TRUE(is_here(host_name()));
  EXPECT_TRUE(is_here("127.0.0.1"));
  EXPECT_TRUE(is_here("127.3.2.1")) << "all of this network is this machine";
  EXPECT_FALSE(is_here("203.0.113.1")) << "an address of no machine";
}

TEST(LocalHosts, AnotherUserIsNotHere) {
  const passwd* own = getpwuid(geteuid());
  ASSERT_NE(own, nullptr);
  EXPECT_TRUE(is_here(std::string(own->pw_name) + "@localhost"));
  EXPECT_TRUE(is_here(std::string(own->pw_name) + "@127.0.0.1"));
  EXPECT_FALSE(is_here("no-such-user@localhost"));
}

TEST(LocalHosts, EachHasItsAnswer) {
  EXPECT_EQ(are_local_hosts({{"203.0.113.1", 0}, {"127.0.0.1", 0}, {"203.0.113.2", 0}, {"localhost", 0}}),
            (std::vector{false, true, false, true}));
  EXPECT_TRUE(are_local_hosts({}).empty());
}

TEST(LocalAddressTowards, IsThatOfTheRoute) {
  const auto own = local_address_towards({{"127.0.0.1", 2379}});
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(*own, "127.0.0.1");
}

TEST(LocalAddressTowards, AHostThatIsUnknownIsPassedOver) {
  const std::string unknown(64, 'x');  // longer than a name can be: no name server is asked
  EXPECT_EQ(*local_address_towards({{unknown, 1}, {"127.0.0.1", 1}}), "127.0.0.1");
  const auto none = local_address_towards({{unknown, 1}, {unknown, 2}});
  ASSERT_FALSE(none.ok());
  EXPECT_TRUE(none.error().message().starts_with("no route to " + unknown + ":1; check --rdzv-endpoint"))
      << none.error().message();
}

}  // namespace
}  // namespace dlaunch::launcher
