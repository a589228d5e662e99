// The threads for stripes: each event is reported once, until the next one is asked for.

#include "runtime/rpc/stripe_threads.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>

#include "tests/runtime/rpc/agents.h"

namespace dlaunch::test {
namespace {

class Counting final : public StripeThreads::Connection {
 public:
  Counting() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    here.emplace([&] { return ends[0]; });
    there.emplace([&] { return ends[1]; });
  }
  void on_event() override {
    if (++events == 2) second.open();
    first.open();
  }
  std::optional<Descriptor> here;
  std::optional<Descriptor> there;
  std::atomic<int> events = 0;
  Gate first;
  Gate second;
};

TEST(StripeThreads, ReportAnEventUntilTheNextOneIsAskedFor) {
  const auto threads = std::make_shared<StripeThreads>();
  const auto connection = std::make_shared<Counting>();
  const std::uint64_t token = threads->add(connection->here->get(), connection);
  EXPECT_EQ(send(connection->there->get(), "x", 1, MSG_NOSIGNAL), 1);
  threads->watch(connection->here->get(), token, false);
  EXPECT_TRUE(connection->first.wait());
  const auto other = std::make_shared<Counting>();  // whose event comes later than any second one
  const std::uint64_t other_token = threads->add(other->here->get(), other);
  threads->watch(other->here->get(), other_token, true);
  EXPECT_TRUE(other->first.wait());
  EXPECT_EQ(connection->events, 1);
  threads->watch(connection->here->get(), token, false);  // the byte is still there
  EXPECT_TRUE(connection->second.wait());
  threads->remove(token);
  threads->watch(connection->here->get(), token, true);
  threads->watch(other->here->get(), other_token, true);
  EXPECT_TRUE(other->second.wait());
  EXPECT_EQ(connection->events, 2);
  EXPECT_TRUE(threads->stop(deadline_after(rpc_limit)));
}

TEST(StripeThreads, EndWithoutAConnection) {
  EXPECT_TRUE(std::make_shared<StripeThreads>()->stop(deadline_after(rpc_limit)));
}

}  // namespace
}  // namespace dlaunch::test
