// Which addresses the ranks of a group choose, and that they agree on them.

#include "runtime/backends/gloo/interfaces.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/backends/gloo/connect.h"
#include "runtime/backends/gloo/reachability.h"
#include "runtime/base/errors.h"
#include "runtime/rendezvous/bootstrap.h"
#include "runtime/rendezvous/local_address.h"
#include "store/client/hash_store.h"
#include "tests/runtime/api/error_strings.h"
#include "tests/runtime/api/variable.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::internal {
namespace {

using test::contains;
using test::on_threads;
using test::soon;
using test::Variable;

// Runs the body on `size` ranks with their contexts; returns the errors as text.
std::vector<std::string> in_contexts(int size, const std::function<void(const BackendContext&)>& body) {
  const auto store = std::make_shared<HashStore>();
  const auto errors = on_threads(size, [&](int rank) {
    const auto keys = backend_store(store);
    body({*keys, rank, size, "test", std::chrono::seconds(60), soon(), "127.0.0.1", {}});
  });
  std::vector<std::string> texts;
  for (const std::exception_ptr& error : errors) texts.push_back(error ? message_of(error) : "");
  return texts;
}

TEST(LocalAddress, FollowsTheRoute) {
  const Result<Addresses> own = addresses_towards("127.0.0.1");
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(*own, Addresses{"127.0.0.1"});
  EXPECT_TRUE(is_loopback("127.0.0.1"));
  EXPECT_TRUE(is_loopback("127.0.1.1"));
  EXPECT_TRUE(is_loopback("::1"));
  EXPECT_FALSE(is_loopback("10.0.0.1"));
  EXPECT_FALSE(is_loopback("fd00::1"));
  const Result<Addresses> unknown = addresses_towards("no-such-host.invalid");
  ASSERT_FALSE(unknown.ok());
  EXPECT_TRUE(contains(unknown.error().message(), "no-such-host.invalid"));
}

TEST(LocalAddress, AnInterfaceHasOneOfEachFamily) {
  for (const Addresses& preferred : {Addresses{}, Addresses{"127.0.0.1"}, Addresses{"10.0.0.1"}}) {
    const Result<Addresses> loopback = addresses_of_interface("lo", preferred);
    ASSERT_TRUE(loopback.ok()) << loopback.error().message();
    EXPECT_EQ(loopback->front(), "127.0.0.1");
    EXPECT_LE(loopback->size(), 2U);  // with ::1
  }
  const Result<Addresses> none = addresses_of_interface("nosuchif0", {});
  ASSERT_FALSE(none.ok());
  EXPECT_TRUE(
      contains(none.error().message(), "'nosuchif0': this machine has no interface of that name; it has"));
  EXPECT_TRUE(contains(none.error().message(), "lo"));
}

Reachability at(Addresses addresses) { return {{std::move(addresses)}, ""}; }

TEST(Reachability, TravelsAsALine) {
  const Reachability two{{{"10.0.0.1", "fd00::1"}, {"10.1.0.1"}}, ""};
  EXPECT_EQ(to_text(two), "10.0.0.1,fd00::1 10.1.0.1");
  EXPECT_EQ(parse_reachability(to_text(two)), two);
  const Reachability none{{}, "it is down"};
  EXPECT_EQ(parse_reachability(to_text(none)), none);
  EXPECT_EQ(to_text(Reachability{{}, "two\nlines"}), "!two lines");
  EXPECT_EQ(parse_reachability("").problem, "it runs another version of libdlaunch");
}

TEST(Reachability, TroubleOfOneIsTroubleOfAll) {
  const Reachability two{{{"10.0.0.1"}, {"10.1.0.1"}}, ""};
  EXPECT_FALSE(disagreement({two, two, two}));
  const auto problem = disagreement({at({"10.0.0.1"}), {{}, "it is down"}});
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->rank, 1);
  EXPECT_EQ(problem->why, "it is down");
  const auto uneven = disagreement({two, two, at({"10.0.0.3"})});
  ASSERT_TRUE(uneven);
  EXPECT_EQ(uneven->rank, 2);
  EXPECT_TRUE(contains(uneven->why, "1 network interface, rank 0 uses 2")) << uneven->why;
}

TEST(Reachability, AllTakeTheSameFamily) {
  const Reachability both = at({"fd00::1", "10.0.0.1"});
  EXPECT_EQ(rail_address({both, both}, 0), "fd00::1");
  EXPECT_EQ(rail_address({both, at({"10.0.0.2"}), both}, 0), "10.0.0.1");
  EXPECT_EQ(rail_address({at({"10.0.0.2"}), both}, 0), "10.0.0.2");
  const auto apart = disagreement({both, at({"10.0.0.2"}), at({"fd00::3"})});
  ASSERT_TRUE(apart);
  EXPECT_EQ(apart->rank, 1);
  EXPECT_EQ(apart->why,
            "it is reached by 10.0.0.2, rank 0 by fd00::1 and 10.0.0.1: all ranks need IPv4, or all IPv6");
}

TEST(Reachability, ALoopbackAddressLooksForTheOthers) {
  EXPECT_EQ(rail_address({at({"127.0.1.1"}), at({"10.0.0.2"}), at({"10.0.0.3"})}, 0), "10.0.0.2");
  EXPECT_EQ(rail_address({at({"127.0.1.1"}), at({"fd00::2"})}, 0), "fd00::2");
  EXPECT_EQ(rail_address({at({"127.0.0.1"}), at({"127.0.0.1"})}, 0), "127.0.0.1");
}

TEST(Interfaces, WithoutNamesTheOneThatReachesTheMaster) {
  const auto errors = in_contexts(3, [](const BackendContext& context) {
    const std::vector<LocalAddress> chosen = agree_on_addresses(context);
    ASSERT_EQ(chosen.size(), 1U);
    EXPECT_EQ(chosen[0].address, "127.0.0.1");
    EXPECT_EQ(chosen[0].interface, "");
  });
  EXPECT_EQ(errors, std::vector<std::string>(3, ""));
}

TEST(Interfaces, DlaunchsVariableComesBeforeGloos) {
  const Variable gloos("GLOO_SOCKET_IFNAME", "nosuchif0");
  const Variable ours("DLAUNCH_SOCKET_IFNAME", "lo, lo");
  const auto errors = in_contexts(2, [](const BackendContext& context) {
    const std::vector<LocalAddress> chosen = agree_on_addresses(context);
    ASSERT_EQ(chosen.size(), 2U);
    EXPECT_EQ(chosen[1].address, "127.0.0.1");
    EXPECT_EQ(chosen[1].interface, "lo");
  });
  EXPECT_EQ(errors, std::vector<std::string>(2, ""));
}

TEST(Interfaces, AnUnknownOneIsNamedOnEveryRank) {
  const Variable unknown("GLOO_SOCKET_IFNAME", "lo,nosuchif0");
  for (const std::string& error :
       in_contexts(3, [](const BackendContext& context) { agree_on_addresses(context); })) {
    EXPECT_TRUE(
        contains(error, "the network interface 'nosuchif0': this machine has no interface of that name"))
        << error;
    EXPECT_TRUE(contains(error, "(GLOO_SOCKET_IFNAME)")) << error;
  }
}

TEST(Interfaces, AListWithoutANameIsRefusedOnEveryRank) {
  const Variable commas("GLOO_SOCKET_IFNAME", ", ,");
  for (const std::string& error :
       in_contexts(2, [](const BackendContext& context) { agree_on_addresses(context); })) {
    EXPECT_TRUE(contains(error, "no network interface is named (GLOO_SOCKET_IFNAME)")) << error;
  }
}

TEST(Interfaces, AnEmptyVariableIsAsNone) {
  const Variable empty("DLAUNCH_SOCKET_IFNAME", "");
  const Variable gloos("GLOO_SOCKET_IFNAME", "lo");
  const auto errors = in_contexts(2, [](const BackendContext& context) {
    EXPECT_EQ(agree_on_addresses(context).front().interface, "lo");
  });
  EXPECT_EQ(errors, std::vector<std::string>(2, ""));
}

// Two meshes over the loopback interface.
TEST(Interfaces, SeveralCarryOneGroup) {
  const Variable both("DLAUNCH_SOCKET_IFNAME", "lo,lo");
  const auto errors = in_contexts(3, [](const BackendContext& context) {
    const std::unique_ptr<Transport> transport = connect_over_gloo(context).transport;
    const int right = (transport->rank() + 1) % 3;
    const int left = (transport->rank() + 2) % 3;
    for (const std::size_t size : {10U, 70000U, 1000001U}) {
      const std::vector<std::byte> out(size, static_cast<std::byte>(transport->rank()));
      std::vector<std::byte> in(size, std::byte{77});
      const auto receive = transport->post_recv(left, 5, in);
      transport->post_send(right, 5, out)->wait(soon());
      receive->wait(soon());
      EXPECT_EQ(in, std::vector<std::byte>(size, static_cast<std::byte>(left)));
    }
    transport->shutdown(soon());
  });
  EXPECT_EQ(errors, std::vector<std::string>(3, ""));
}

}  // namespace
}  // namespace dlaunch::internal
