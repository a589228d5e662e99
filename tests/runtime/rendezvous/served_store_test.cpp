// Store servers that a worker runs itself.

#include "runtime/rendezvous/served_store.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "dlaunch/error.h"
#include "runtime/rendezvous/key_value_store.h"
#include "runtime/rendezvous/liveness_socket.h"
#include "tests/runtime/api/error_strings.h"
#include "tests/runtime/api/variable.h"
#include "tests/runtime/collectives/thread_transport.h"
#include "tests/runtime/forked_copies.h"

namespace dlaunch::internal {
namespace {

using test::error_of;

class ServedStores : public testing::Test {
 protected:
  static bool is_served(const Address& address) {
    return !LivenessSocket::is_closed(address.host + " " + std::to_string(address.port));
  }

 private:
  const test::Variable module_folder_{"DLAUNCH_BACKEND_PATH", DLAUNCH_BUILD_DIR "/lib/dlaunch"};
};

const Address any_port{"127.0.0.1", 0};

TEST_F(ServedStores, EndWithTheirLastHandle) {
  auto first = serve_store({.address = any_port, .shares = true});
  const Address address = first->address;
  EXPECT_EQ(address.host, "127.0.0.1");
  EXPECT_NE(address.port, 0);
  connect_store(address, test::soon())->set("key", "value");
  auto second = serve_store({.address = address, .shares = true});
  first.reset();
  EXPECT_EQ(connect_store(address, test::soon())->get("key"), "value");  // still the same server
  second.reset();
  EXPECT_FALSE(is_served(address));
  EXPECT_EQ(serve_store({.address = address})->address.port, address.port);  // the port is free again
}

TEST_F(ServedStores, EachPortHasItsOwn) {
  const auto one = serve_store({.address = any_port});
  const auto other = serve_store({.address = any_port});
  EXPECT_NE(one->address.port, other->address.port);
  connect_store(one->address, test::soon())->set("key", "one");
  EXPECT_FALSE(connect_store(other->address, test::soon())->check(std::vector<std::string>{"key"}));
}

TEST_F(ServedStores, AreSharedOnlyIfBothRequestsAgree) {
  const auto private_one = serve_store({.address = any_port});
  const auto shared = serve_store({.address = any_port, .shares = true});
  const auto error_with = [](const ServeRequest& request) { return error_of([&] { serve_store(request); }); };
  const auto start = [](const ServedStore& store) {
    return "this process serves a store at " + to_string(store.address) + " already";
  };
  const std::string remedy = "; use another port, or set multi_tenant for both";
  EXPECT_EQ(error_with({.address = private_one->address, .shares = true}), start(*private_one) + remedy);
  EXPECT_EQ(error_with({.address = shared->address}), start(*shared) + remedy);
  EXPECT_EQ(error_with({.address = {"localhost", shared->address.port}, .shares = true}),
            start(*shared) + ", and not at the host localhost; use another port");
  EXPECT_TRUE(is_served(private_one->address));
  EXPECT_TRUE(is_served(shared->address));
}

// A socket that is bound, and its port.
struct Bound {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::uint16_t port = 0;

  Bound() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
  }
  [[nodiscard]] bool is_open() const { return fcntl(fd, F_GETFD) >= 0; }
};

TEST_F(ServedStores, OwnTheSocketThatTheyAreGiven) {
  const Bound bound;
  auto store = serve_store({.address = {"127.0.0.1", bound.port}, .socket = bound.fd});
  EXPECT_EQ(store->address.port, bound.port);
  connect_store(store->address, test::soon())->set("key", "value");
  store.reset();
  EXPECT_FALSE(bound.is_open());
}

TEST_F(ServedStores, CloseASocketThatDoesNotFit) {
  const Bound wrong_port;
  const std::uint16_t other = Bound().port;
  EXPECT_EQ(error_of([&] {
              serve_store({.address = {"127.0.0.1", other}, .socket = wrong_port.fd});
            }),
            "the socket to listen on has port " + std::to_string(wrong_port.port) + ", not " +
                std::to_string(other));
  EXPECT_FALSE(wrong_port.is_open());
  const auto served = serve_store({.address = any_port, .shares = true});
  const Bound second;
  EXPECT_TRUE(test::error_contains(
      [&] { serve_store({.address = served->address, .socket = second.fd, .shares = true}); },
      "cannot listen on another socket"));
  EXPECT_FALSE(second.is_open());
}

TEST_F(ServedStores, AnAddressOfAnotherMachineIsAnError) {
  EXPECT_THROW(serve_store({.address = {"192.0.2.1", 0}}), DistStoreError);
}

TEST_F(ServedStores, OfRankZeroStayAndMayBeSharedWithAnyOther) {
  auto store = serve_store({.address = any_port});
  const Address address = store->address;
  serve_store_of_rank_zero(address);
  serve_store_of_rank_zero(address);  // of the next group
  store.reset();
  EXPECT_TRUE(is_served(address));
  const Bound taken;
  ASSERT_EQ(listen(taken.fd, 1), 0);
  const std::string error = error_of([&] { serve_store_of_rank_zero({"127.0.0.1", taken.port}); });
  EXPECT_TRUE(error.starts_with("rank 0 cannot serve the store at 127.0.0.1:" + std::to_string(taken.port)))
      << error;
  EXPECT_TRUE(error.ends_with("set TORCHELASTIC_USE_AGENT_STORE=True")) << error;
  close(taken.fd);
}

// The copy has the handle and not the server's thread.
TEST_F(ServedStores, ACopyOfTheProcessDoesNotEndThem) {
  if (test::copies_may_hang) GTEST_SKIP() << "AddressSanitizer's allocator may hang in a copy";
  auto store = serve_store({.address = any_port});
  EXPECT_EQ(test::exit_code_of_copy([&] {
              store.reset();
              return 0;
            }),
            0);
  connect_store(store->address, test::soon())->set("key", "value");
  EXPECT_TRUE(is_served(store->address));
}

}  // namespace
}  // namespace dlaunch::internal
