// How ranks that are not connected yet learn that one of them is gone.

#include "runtime/rendezvous/failure_detector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "dlaunch/error.h"
#include "store/client/hash_store.h"
#include "tests/runtime/api/error_strings.h"

namespace dlaunch::internal {
namespace {

using test::contains;
using test::error_of;

constexpr const char* here = "127.0.0.1";

std::string closed_address() { return LivenessSocket::open(here)->address(); }

TEST(FailureDetector, EachRankIsMonitoredBySeveralAndMonitorsFew) {
  for (const int size : {1, 2, 3, 8, 9, 64, 1000}) {
    std::vector<int> looked_for(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      std::vector<int> those = monitored_by(rank, size);
      EXPECT_LE(those.size(), 10U) << size;
      for (const int other : those) {
        EXPECT_NE(other, rank);
        ++looked_for[static_cast<std::size_t>(other)];
      }
    }
    const int least = size <= 8 ? size - 1 : 4;
    EXPECT_GE(std::ranges::min(looked_for), least) << size;
  }
}

// If two machines have one address, as containers may, a probe proves nothing.
TEST(FailureDetector, AnAddressThatIsAlsoThisRanksIsAnotherMachines) {
  const PeerInfo gone{"there", closed_address()};
  EXPECT_FALSE(is_gone(gone, {"here", "127.0.0.1 1"}));
  EXPECT_TRUE(is_gone(gone, {"there", "127.0.0.1 1"}));
  EXPECT_TRUE(is_gone(gone, {"here", "127.0.0.2 1"}));
}

// The master's name may mean a loopback interface on its own machine (Debian's /etc/hosts).
TEST(FailureDetector, IgnoresLoopbackAddressesOfOtherHosts) {
  EXPECT_FALSE(is_gone({"there", closed_address()}, {"here", "192.0.2.1 1"}));
  EXPECT_FALSE(is_gone({"same name", closed_address()}, {"same name", "192.0.2.1 1"}));
}

// As a client of a server that is gone.
class LostStore final : public Store {
 public:
  void set(std::string_view /*key*/, std::string_view /*value*/) override { lose(); }
  std::string get(std::string_view /*key*/) override { lose(); }
  std::int64_t add(std::string_view /*key*/, std::int64_t /*amount*/) override { lose(); }
  std::string compare_set(std::string_view /*key*/, std::string_view /*expected*/,
                          std::string_view /*desired*/) override {
    lose();
  }
  void wait(std::span<const std::string> /*keys*/, Duration /*timeout*/) override { lose(); }
  bool check(std::span<const std::string> /*keys*/) override { lose(); }
  std::int64_t num_keys() override { lose(); }
  bool delete_key(std::string_view /*key*/) override { lose(); }
  void set_timeout(Duration /*timeout*/) override {}
  [[nodiscard]] Duration timeout() const override { return {}; }

 private:
  [[noreturn]] static void lose() { throw StoreError({ErrorKind::network, "the store", "", "lost", ""}); }
};

// Three ranks, which are called 10, 11 and 12; each may end its process.
class Three {
 public:
  Three() {
    for (std::unique_ptr<LivenessSocket>& liveness_socket : sockets_) {
      liveness_socket = LivenessSocket::open(here);
      members_.push_back({10 + static_cast<int>(members_.size()), {"host", liveness_socket->address()}});
    }
  }
  FailureDetector detector_of(int rank, std::function<void()> extra_check = {}) const {
    return FailureDetector({store_, members_, rank, 0, liveness_socket(rank), std::move(extra_check)});
  }
  std::string told(int rank) const {
    return error_of([&] { detector_of(rank).check(); });
  }
  void end(int rank) { sockets_[static_cast<std::size_t>(rank)].reset(); }
  void lose_store() { store_ = std::make_shared<LostStore>(); }

 private:
  const LivenessSocket* liveness_socket(int rank) const {
    return sockets_[static_cast<std::size_t>(rank)].get();
  }

  std::shared_ptr<Store> store_ = std::make_shared<HashStore>();
  std::unique_ptr<LivenessSocket> sockets_[3];
  std::vector<FailureDetector::Member> members_;
};

TEST(FailureDetector, NamesNoRankWhileAllLive) {
  const Three ranks;
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.told(rank), "no error");
}

TEST(FailureDetector, NamesTheDeadRank) {
  Three ranks;
  ranks.end(2);
  EXPECT_EQ(ranks.told(0), "peer 12 on host: its process ended while the ranks were connecting");
}

// Whichever socket is probed first.
TEST(FailureDetector, DoesNotNameRanksThatGaveUpLater) {
  for (const int dead : {0, 1, 2}) {
    Three ranks;
    ranks.end(dead);
    const std::string said =
        "peer 1" + std::to_string(dead) + " on host: its process ended while the ranks were connecting";
    EXPECT_EQ(ranks.told((dead + 1) % 3), said);
    ranks.end((dead + 1) % 3);
    EXPECT_EQ(ranks.told((dead + 2) % 3), said);
  }
}

TEST(FailureDetector, SharesLossesFromOtherSources) {
  const Three ranks;
  const auto extra_check = [] { throw DistNetworkError("it is dead", {.peer = 11, .host = "host"}); };
  EXPECT_EQ(error_of([&] { ranks.detector_of(0, extra_check).check(); }), "peer 11 on host: it is dead");
  EXPECT_EQ(ranks.told(2), "peer 11 on host: it is dead");
  EXPECT_EQ(ranks.told(1), "the others have given up on this rank: it is dead");
}

TEST(FailureDetector, ReportsWhyARankGaveUp) {
  for (const bool blames : {true, false}) {
    const Three ranks;
    const ErrorContext context{.peer = blames ? 2 : -1};
    ranks.detector_of(1).report(std::make_exception_ptr(DistNetworkError("no way there", context)));
    EXPECT_EQ(ranks.told(0),
              blames ? "peer 12 on host: no way there" : "peer 11 on host: it gave up: no way there");
  }
}

// Rank 0 has served it. A rank that has detected that may have ended too, and could not publish it.
TEST(FailureDetector, ALostStoreIsThatOfTheRankThatServedIt) {
  Three ranks;
  ranks.lose_store();
  EXPECT_EQ(ranks.told(1), "no error");
  ranks.end(0);
  ranks.end(2);
  const std::string said = ranks.told(1);
  EXPECT_TRUE(contains(said, "peer 10 on host: it is gone, and with it the store that it served: ")) << said;
}

}  // namespace
}  // namespace dlaunch::internal
