// Keys of other ranks, and ranks that do not publish theirs.

#include "runtime/backends/gloo/peer_key.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "dlaunch/error.h"
#include "runtime/rendezvous/bootstrap.h"
#include "store/client/hash_store.h"
#include "tests/runtime/api/error_strings.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::internal {
namespace {

using test::error_of;
using test::soon;

std::string waited(BackendStore& store, Deadline deadline) {
  const BackendContext context{store, 0, 2, "test", std::chrono::seconds(60), deadline, "127.0.0.1", {}};
  return wait_for_peer_key(3, "contact/3", context);
}

TEST(PeerKey, IsWaitedFor) {
  const auto store = std::make_shared<HashStore>();
  std::thread peer([&] { backend_store(store)->set("contact/3", "here"); });
  EXPECT_EQ(waited(*backend_store(store), soon()), "here");
  peer.join();
}

TEST(PeerKey, ThatDoesNotComeIsTheFaultOfItsRank) {
  const auto keys = backend_store(std::make_shared<HashStore>());
  EXPECT_EQ(error_of([&] { waited(*keys, deadline_after(std::chrono::milliseconds(20))); }),
            "peer 3: it did not publish its addresses before the deadline");
}

// The loss of the store, or of a rank, is no silence of the peer.
TEST(PeerKey, OtherErrorsStayWhatTheyAre) {
  class Lost final : public BackendStore {
   public:
    void set(const std::string&, const std::string&) override {}
    std::string get(const std::string&, Deadline) override { throw DistStoreError("the store is lost"); }
    void wait(std::span<const std::string>, Deadline) override {}
  } lost;
  EXPECT_EQ(error_of([&] { waited(lost, soon()); }), "the store is lost");
  const auto checked =
      backend_store(std::make_shared<HashStore>(), [] { throw DistNetworkError("it is lost", {.peer = 1}); });
  EXPECT_EQ(error_of([&] { waited(*checked, soon()); }), "peer 1: it is lost");
}

}  // namespace
}  // namespace dlaunch::internal
