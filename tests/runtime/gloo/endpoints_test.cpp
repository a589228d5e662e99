// The endpoints that the groups of a process share.

#include "runtime/backends/gloo/endpoints.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dlaunch/error.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::internal {
namespace {

constexpr const char* here = "127.0.0.1";

TEST(EndpointLease, GroupsOneAfterTheOtherShareAnEndpoint) {
  auto first = std::make_unique<EndpointLease>(here);
  const std::shared_ptr<Endpoint> used = first->endpoint();  // by a group
  first.reset();
  const EndpointLease second(here);
  EXPECT_EQ(second.endpoint(), used);
}

// The ranks may be threads of one process, and each needs its own.
TEST(EndpointLease, GroupsThatAreMadeAtOnceDoNot) {
  constexpr int count = 4;
  std::latch all_leased(count);
  std::vector<std::shared_ptr<Endpoint>> endpoints(count);
  test::expect_success(test::on_threads(count, [&](int i) {
    const EndpointLease lease(here);
    endpoints[static_cast<std::size_t>(i)] = lease.endpoint();
    all_leased.arrive_and_wait();
  }));
  EXPECT_EQ(std::set(endpoints.begin(), endpoints.end()).size(), static_cast<std::size_t>(count));
  // All are free now: as many groups find as many endpoints again.
  std::latch again(count);
  test::expect_success(test::on_threads(count, [&](int) {
    const EndpointLease lease(here);
    EXPECT_NE(std::ranges::find(endpoints, lease.endpoint()), endpoints.end());
    again.arrive_and_wait();
  }));
}

TEST(EndpointLease, AnEndpointEndsWithItsLastGroup) {
  std::weak_ptr<Endpoint> endpoint;
  {
    const EndpointLease lease(here);
    endpoint = lease.endpoint();
    EXPECT_EQ(lease.endpoint()->contact().address, here);
  }
  EXPECT_TRUE(endpoint.expired());
}

TEST(EndpointLease, AnotherAddressIsAnotherEndpoint) {
  std::shared_ptr<Endpoint> used;
  {
    const EndpointLease lease(here);
    used = lease.endpoint();
  }
  const EndpointLease other("127.0.0.2");
  EXPECT_NE(other.endpoint(), used);
  EXPECT_EQ(other.endpoint()->contact().address, "127.0.0.2");
}

TEST(EndpointLease, AnAddressOfAnotherMachineIsAnError) {
  EXPECT_THROW(EndpointLease("192.0.2.1"), DistNetworkError);
  EXPECT_THROW(EndpointLease("nowhere"), DistNetworkError);
}

}  // namespace
}  // namespace dlaunch::internal
