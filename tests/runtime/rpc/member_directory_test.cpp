#include "runtime/rpc/member_directory.h"

#include <gtest/gtest.h>

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
    const std::uint32_t id = directory_.claim_id(wanted, name);
    const std::string& address = alive_->address();
    const std::size_t space = address.find(' ');
    const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(space + 1)));
    WorkerContact worker{
        name,
        id,
        "h",
        {std::string(process_id_size, 'i'), address.substr(0, space), port, std::string(key_size, 'k')}};
    directory_.join(worker);
    return worker;
  }
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
  std::unique_ptr<LivenessSocket> alive_ = LivenessSocket::open("127.0.0.1");
};

TEST_F(Members, AreFoundByNameAndById) {
  EXPECT_FALSE(directory_.find("ps"));
  EXPECT_TRUE(directory_.all().empty());
  const WorkerContact ps = join("ps", 7);
  const WorkerContact a = join("a");
  EXPECT_EQ(ps.id, 7U);
  EXPECT_EQ(directory_.find("ps")->worker, ps);
  EXPECT_EQ(directory_.find(7)->worker, ps);
  EXPECT_FALSE(directory_.find("ps")->has_left);
  EXPECT_FALSE(directory_.find(8));
  EXPECT_EQ(directory_.all(), (std::vector{a, ps}));
}

TEST_F(Members, GetFreeIds) {
  join("a", 0);
  join("b", 2);
  EXPECT_EQ(join("c").id, 1U);
  EXPECT_EQ(join("d").id, 3U);
}

TEST_F(Members, AnIdIsGivenOnce) {
  const WorkerContact ps = join("ps", 2);
  EXPECT_NE(error_of_join("other", 2).find("rank 2 is that of worker ps (rank 2) on host h"),
            std::string::npos);
  directory_.leave(ps);
  EXPECT_NE(error_of_join("other", 2).find("rank 2 was that of worker ps"), std::string::npos);
  EXPECT_NE(error_of_join("other", 1U << 24U).find("is not below"), std::string::npos);
}

TEST_F(Members, ANameIsFreeAgainWhenItsWorkerHasLeft) {
  const WorkerContact first = join("ps");
  EXPECT_NE(error_of_join("ps").find("the name 'ps' is that of worker ps (rank 0) on host h"),
            std::string::npos);
  EXPECT_EQ(directory_.find("ps")->worker, first);
  directory_.leave(first);
  EXPECT_TRUE(directory_.find("ps")->has_left);
  EXPECT_TRUE(directory_.find(first.id)->has_left);
  const WorkerContact second = join("ps");
  EXPECT_EQ(directory_.find("ps")->worker, second);
  directory_.leave(first);  // late: the name is not its own any more
  EXPECT_FALSE(directory_.find("ps")->has_left);
  EXPECT_EQ(directory_.all(), std::vector{second});
}

TEST_F(Members, ANameIsFreeAgainWhenItsWorkerIsDead) {
  const WorkerContact dead = join("ps");
  alive_ = LivenessSocket::open("127.0.0.1");  // another one; the first is closed
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

}  // namespace
}  // namespace dlaunch::test
