#include "runtime/rpc/member_directory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "dlaunch/error.h"
#include "runtime/rendezvous/liveness_socket.h"
#include "store/client/hash_store.h"

namespace dlaunch::test {
namespace {

using namespace internal;

class Members : public ::testing::Test {
 protected:
  // Joins at an address that is alive until the end of the test.
  WorkerContact join(const std::string& name, std::optional<std::uint32_t> wanted = {}) {
    WorkerContact worker = claim(name, wanted);
    directory_.join(worker);
    return worker;
  }
  WorkerContact claim(const std::string& name, std::optional<std::uint32_t> wanted = {}) {
    const std::string& address = alive_->address();
    const std::size_t space = address.find(' ');
    const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(space + 1)));
    std::string process(process_id_size, 'i');
    process[0] = static_cast<char>(++processes_);
    WorkerContact worker{.name = name,
                         .id = 0,
                         .host = "h",
                         .contact = {process, address.substr(0, space), port, std::string(key_size, 'k')},
                         .rank = 0,
                         .pid = 99};
    directory_.claim_rank(wanted, worker);
    return worker;
  }
  // The workers so far are dead, and later ones live.
  void kill_all() { alive_ = LivenessSocket::open("127.0.0.1"); }
  std::string error_of_join(const std::string& name, std::optional<std::uint32_t> wanted = {}) {
    try {
      (void)join(name, wanted);
    } catch (const DistError& e) {
      return e.reason();
    }
    return "none";
  }

  std::shared_ptr<store::HashStore> keys_ = std::make_shared<store::HashStore>();
  MemberDirectory directory_{keys_};
  std::atomic<int> processes_ = 0;
  std::unique_ptr<LivenessSocket> alive_ = LivenessSocket::open("127.0.0.1");
};

TEST_F(Members, AreFoundByNameAndByRank) {
  EXPECT_FALSE(directory_.find("ps"));
  EXPECT_TRUE(directory_.all().empty());
  const WorkerContact ps = join("ps", 7);
  const WorkerContact a = join("a");
  EXPECT_EQ(ps.id, 7U);
  EXPECT_EQ(directory_.find("ps")->worker, ps);
  EXPECT_EQ(directory_.find_rank(7)->worker, ps);
  EXPECT_EQ(directory_.find_id(7)->worker, ps);
  EXPECT_FALSE(directory_.find("ps")->has_left);
  EXPECT_FALSE(directory_.find_rank(8));
  EXPECT_FALSE(directory_.find_id(8));
  EXPECT_EQ(directory_.all(), (std::vector{a, ps}));
}

TEST_F(Members, GetFreeRanks) {
  join("a", 0);
  join("b", 2);
  EXPECT_EQ(join("c").rank, 1U);
  EXPECT_EQ(join("d").rank, 3U);
}

TEST_F(Members, ARankHasOneWorkerAtATime) {
  const WorkerContact ps = join("ps", 2);
  EXPECT_NE(error_of_join("other", 2).find("rank 2 is that of worker ps (rank 2) on host h (pid 99)"),
            std::string::npos);
  EXPECT_NE(error_of_join("other", 1U << 23U).find("is not below"), std::string::npos);
  EXPECT_EQ(directory_.all(), std::vector{ps});
  directory_.leave(ps);
  const WorkerContact other = join("other", 2);
  EXPECT_EQ(other.rank, 2U);
  EXPECT_EQ(directory_.all(), std::vector{other});
}

// What is meant for the dead one does not reach the other.
TEST_F(Members, ARankIsTakenOverWithAnotherId) {
  const WorkerContact dead = join("ps", 2);
  kill_all();
  const WorkerContact second = join("ps", 2);
  EXPECT_EQ(second.rank, 2U);
  EXPECT_NE(second.id, dead.id);
  EXPECT_EQ(directory_.find("ps")->worker, second);
  EXPECT_EQ(directory_.find_rank(2)->worker, second);
  EXPECT_EQ(directory_.find_id(dead.id)->worker, dead);
  EXPECT_EQ(directory_.all(), std::vector{second});
  directory_.leave(dead);  // late: the rank is not its own any more
  EXPECT_FALSE(directory_.find_rank(2)->has_left);
  kill_all();
  EXPECT_NE(join("ps", 2).id, second.id);
}

TEST_F(Members, ARankIsFreeAgainIfItsWorkerDiesBeforeItHasJoined) {
  claim("ps", 2);
  EXPECT_FALSE(directory_.find_rank(2));
  EXPECT_NE(error_of_join("ps", 2).find("rank 2 is that of worker ps (rank 2) on host h (pid 99)"),
            std::string::npos);
  kill_all();
  EXPECT_EQ(directory_.find_rank(join("ps", 2).rank)->worker.name, "ps");
}

// The rank, too, is free again.
TEST_F(Members, AWorkerWhoseNameIsTakenDoesNotJoin) {
  const WorkerContact ps = join("ps", 2);
  EXPECT_NE(error_of_join("ps", 3).find("the name 'ps' is that of worker ps (rank 2)"), std::string::npos);
  EXPECT_EQ(directory_.all(), std::vector{ps});
  EXPECT_EQ(join("other", 3).rank, 3U);
}

TEST_F(Members, ANameIsFreeAgainWhenItsWorkerHasLeft) {
  const WorkerContact first = join("ps");
  EXPECT_NE(error_of_join("ps").find("the name 'ps' is that of worker ps (rank 0) on host h"),
            std::string::npos);
  EXPECT_EQ(directory_.find("ps")->worker, first);
  directory_.leave(first);
  EXPECT_TRUE(directory_.find("ps")->has_left);
  EXPECT_TRUE(directory_.find_rank(first.rank)->has_left);
  const WorkerContact second = join("ps");
  EXPECT_EQ(directory_.find("ps")->worker, second);
  directory_.leave(first);  // late: the name is not its own any more
  EXPECT_FALSE(directory_.find("ps")->has_left);
  EXPECT_EQ(directory_.all(), std::vector{second});
}

TEST_F(Members, ANameIsFreeAgainWhenItsWorkerIsDead) {
  const WorkerContact dead = join("ps");
  kill_all();
  const WorkerContact second = join("ps");
  EXPECT_NE(second.id, dead.id);
  EXPECT_EQ(directory_.find("ps")->worker, second);
}

TEST_F(Members, OneOfManyGetsAName) {
  std::vector<std::thread> threads;
  threads.reserve(8);
  std::atomic<int> joined = 0;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { joined += error_of_join("ps") == "none" ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(joined, 1);
  EXPECT_EQ(directory_.all().size(), 1U);
}

TEST_F(Members, OneOfManyTakesARankOver) {
  join("ps", 2);
  kill_all();
  std::vector<std::thread> threads;
  threads.reserve(8);
  std::atomic<int> joined = 0;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] { joined += error_of_join("ps", 2) == "none" ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(joined, 1);
}

}  // namespace
}  // namespace dlaunch::test
