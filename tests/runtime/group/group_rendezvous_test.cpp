// One attempt to form a group: the ranks meet, connect, and report what fails.

#include "runtime/group/group_rendezvous.h"

#include <gtest/gtest.h>

#include <atomic>
#include <exception>
#include <latch>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/backends/threads/module.h"
#include "runtime/base/errors.h"
#include "store/client/hash_store.h"
#include "tests/runtime/api/error_strings.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::internal {
namespace {

using test::error_of;
using test::expect_success;
using test::on_threads;
using test::soon;

RendezvousOptions options(int rank, int size, Deadline deadline = soon()) {
  RendezvousOptions result{.call = "new_group",
                           .statement = "these ranks",
                           .self = rank,
                           .rank = rank,
                           .members = std::vector<int>(static_cast<std::size_t>(size)),
                           .deadline = deadline};
  std::iota(result.members.begin(), result.members.end(), 0);
  return result;
}

GroupDescription one_device(int rank, int size) {
  return {"test", rank, size, std::chrono::seconds(60), "threads"};
}

bool is_there(std::string& /*reason*/) { return true; }
// On rank 1 alone.
std::unique_ptr<Backend> fail_on_one(const BackendContext& context) {
  if (context.rank == 1) throw DistBackendError("no memory for the network card");
  (void)context.store.get("never set", context.deadline);
  return nullptr;
}
const BackendModule half_broken{backend_abi_version, "half_broken", "cpu", is_there, fail_on_one};

TEST(GroupRendezvous, MembersMeetAndConnect) {
  const auto store = std::make_shared<HashStore>();
  expect_success(on_threads(3, [&](int rank) {
    GroupRendezvous meeting(store, options(rank, 3));
    EXPECT_EQ(meeting.meet().size(), 3U);
    const GroupDescription group = one_device(rank, 3);
    auto backends = meeting.connect({{&threads_module(), {Device::Kind::cpu}}}, group, "");
    ASSERT_EQ(backends.size(), 1U);
    const auto made = make_group(group, std::move(backends), store, "identity", false);
    std::vector<int> one = {1};
    made->all_reduce(Tensor::of(one), ReduceOp::sum, {});
    EXPECT_EQ(one[0], 3);
    made->destroy();
  }));
}

// The others wait for it in the store: they get its reason, long before the deadline.
TEST(GroupRendezvous, AFailureOnOneRankEndsTheWaitsOfAll) {
  const auto store = std::make_shared<HashStore>();
  std::vector<std::string> errors(3);
  expect_success(on_threads(3, [&](int rank) {
    GroupRendezvous meeting(store, options(rank, 3));
    meeting.detect_failures(std::vector{0, 1, 2}, meeting.meet(), std::nullopt, nullptr);
    errors[static_cast<std::size_t>(rank)] = error_of([&] {
      try {
        (void)meeting.connect({{&half_broken, {Device::Kind::cpu}}}, one_device(rank, 3), "");
      } catch (...) {
        meeting.report_failure(std::current_exception(), [] {});
        throw;
      }
    });
  }));
  EXPECT_EQ(errors[1], "no memory for the network card");
  for (const int other : {0, 2}) {
    const std::string& error = errors[static_cast<std::size_t>(other)];
    EXPECT_TRUE(test::contains(error, "no memory for the network card")) << error;
    EXPECT_TRUE(test::contains(error, "peer 1")) << error;
  }
}

// In the group it has another rank than in the default group.
TEST(GroupRendezvous, ALossMeanwhileIsNamedByTheRankInTheGroup) {
  const auto store = std::make_shared<HashStore>();
  RendezvousOptions own = options(0, 1);
  own.self = 4;
  own.check = [] { throw DistNetworkError("it burns", {.peer = 7}); };
  GroupRendezvous meeting(store, own);
  meeting.detect_failures(std::vector{4, 6, 7}, std::vector<PeerInfo>(8), std::nullopt, nullptr);
  GroupDescription group = one_device(0, 3);
  group.ranks = {4, 6, 7};
  try {
    (void)meeting.connect({{&half_broken, {Device::Kind::cpu}}}, group, "");
    FAIL() << "no error";
  } catch (const DistNetworkError& e) {
    EXPECT_EQ(e.reason(), "it burns");
    EXPECT_EQ(e.context().peer, 2);
  }
}

TEST(GroupRendezvous, ChecksWhatItsOptionsCheckUntilItDetectsFailures) {
  std::atomic<int> checks = 0;
  RendezvousOptions own = options(0, 1);
  own.check = [&] { ++checks; };
  GroupRendezvous meeting(std::make_shared<HashStore>(), own);
  meeting.check();
  EXPECT_EQ(checks, 1);
  meeting.detect_failures(std::vector{0}, meeting.meet(), std::nullopt, nullptr);
  const int before = checks;
  meeting.check();
  EXPECT_GT(checks, before);  // the detector does both
  GroupRendezvous without(std::make_shared<HashStore>(), options(0, 1));
  without.check();
}

// Only the loss of the store has a cause that somebody else knows, and only before the deadline.
TEST(GroupRendezvous, AsksForTheCauseOfALostStore) {
  const auto asked = [](const std::exception_ptr& error, Deadline deadline) {
    GroupRendezvous meeting(std::make_shared<HashStore>(), options(0, 1, deadline));
    meeting.detect_failures(std::vector{0}, {PeerInfo{}}, std::nullopt, nullptr);
    int calls = 0;
    meeting.report_failure(error, [&] { ++calls; });
    return calls;
  };
  const auto store_error = std::make_exception_ptr(DistStoreError("lost"));
  EXPECT_EQ(asked(store_error, soon()), 1);
  EXPECT_EQ(asked(store_error, Deadline::min()), 0);
  EXPECT_EQ(asked(std::make_exception_ptr(DistNetworkError("lost")), soon()), 0);
}

}  // namespace
}  // namespace dlaunch::internal
