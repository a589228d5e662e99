#include "store/server/store_host.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "store/client/tcp_store.h"

namespace dlaunch::store {
namespace {

TcpStoreOptions client_of(const StoreHost& host) {
  TcpStoreOptions options;
  options.server = {"127.0.0.1", host.port()};
  options.timeout = std::chrono::minutes(1);
  return options;
}

std::unique_ptr<StoreHost> started(std::uint16_t port = 0) {
  auto host = StoreHost::start({"127.0.0.1", port});
  EXPECT_TRUE(host.ok());
  return host ? std::move(*host) : nullptr;
}

TEST(StoreHost, ServesFromTheMomentItWasStarted) {
  const auto host = started();
  ASSERT_NE(host, nullptr);
  EXPECT_NE(host->port(), 0);
  ASSERT_EQ(host->addresses().size(), 1U);
  EXPECT_EQ(host->addresses()[0].host, "127.0.0.1");
  TcpStore store(client_of(*host));
  EXPECT_EQ(store.add("n", 2), 2);
  EXPECT_EQ(host->stats().keys, 1U);
}

TEST(StoreHost, WorkRunsOnItsThread) {
  const auto host = started();
  ASSERT_NE(host, nullptr);
  std::thread::id there;
  host->run([&](StoreServer&) { there = std::this_thread::get_id(); });
  EXPECT_NE(there, std::thread::id());
  EXPECT_NE(there, std::this_thread::get_id());
}

TEST(StoreHost, AnyThreadMayCallIt) {
  const auto host = started();
  ASSERT_NE(host, nullptr);
  std::atomic<int> ran = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 50; ++turn) host->run([&](StoreServer&) { ++ran; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ran, 200);
}

TEST(StoreHost, APortInUseIsAnErrorAndIsFreeAfterTheEnd) {
  auto first = started();
  ASSERT_NE(first, nullptr);
  const std::uint16_t port = first->port();
  const auto second = StoreHost::start({"127.0.0.1", port});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::in_use);
  first.reset();
  EXPECT_NE(started(port), nullptr);
}

TEST(StoreHost, ASocketThatIsNoneIsAnError) {
  const int fd = dup(STDERR_FILENO);
  EXPECT_FALSE(StoreHost::start_on(fd).ok());
}

TEST(StoreHost, ItsEndEndsItsClients) {
  auto host = started();
  ASSERT_NE(host, nullptr);
  TcpStore store(client_of(*host));
  store.set("k", "v");
  host.reset();
  EXPECT_THROW(store.get("k"), StoreError);
}

}  // namespace
}  // namespace dlaunch::store
