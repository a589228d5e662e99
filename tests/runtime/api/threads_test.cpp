// Ranks that are threads of one process, and the stores through which they meet.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dlaunch/distributed.h"
#include "dlaunch/threads.h"
#include "runtime/group/world.h"
#include "tests/runtime/group/thread_groups.h"
#include "tests/runtime/group/thread_worlds.h"

namespace dlaunch::internal {
namespace {

using test::error_of;
using test::sum_over;

TEST(ThreadWorlds, CanBeMadeAgain) {
  run_ranks_as_threads(3, [](int rank) {
    for (int i = 0; i < 3; ++i) {
      init_process_group();
      EXPECT_EQ(sum_over(new_group(), rank), 3);
      EXPECT_EQ(error_of([] { init_process_group(); }), "the default process group is already initialized");
      destroy_process_group();
    }
  });
}

TEST(ThreadWorlds, BackendUnusableOnOneRankFailsOnAllRanks) {
  run_ranks_as_threads(3, [](int rank) {
    InitOptions options;
    if (rank == 0) options.backend = "odd";
    const std::string error = error_of([&] { init_process_group(options); });
    EXPECT_TRUE(test::contains(error, "unknown backend 'odd'")) << error;
    EXPECT_EQ(test::contains(error, "rank 0 cannot take part: "), rank != 0) << error;
    init_process_group();  // all together again
    EXPECT_EQ(sum_over(default_group(), 1), 3);
    destroy_process_group();
  });
}

TEST(ThreadWorlds, NeedAFunction) {
  EXPECT_EQ(error_of([] { run_ranks_as_threads(2, nullptr); }),
            "run_ranks_as_threads: there is no function to run");
}

TEST(ThreadWorlds, TheFirstErrorComesOut) {
  EXPECT_EQ(error_of([] {
              run_ranks_as_threads(3, [](int rank) {
                init_process_group();
                if (rank == 1) throw DistError("rank 1 has had enough");
                barrier();
              });
            }),
            "rank 1 has had enough");
}

// Half an hour before the deadline.
TEST(ThreadWorlds, ARankThatFailsBeforeItJoinsIsNotWaitedFor) {
  std::atomic<int> told = 0;
  EXPECT_EQ(error_of([&] {
              run_ranks_as_threads(3, [&](int rank) {
                if (rank == 1) throw DistError("rank 1 has no data");
                const std::string error = error_of([] { init_process_group(); });
                if (test::contains(error, "another rank gave up: rank 1 has no data")) ++told;
              });
            }),
            "rank 1 has no data");
  EXPECT_EQ(told, 2);
}

TEST(ThreadWorlds, MeetThroughAStoreOfTheProgram) {
  const auto store = make_hash_store();
  const auto errors = test::on_threads(3, [&](int rank) {
    const ThreadWorld mine({rank, 3, nullptr, "threads"});
    InitOptions options;
    options.backend = "threads";
    options.rank = rank;
    options.world_size = 3;
    options.store = make_prefix_store("part", store);
    init_process_group(options);
    EXPECT_EQ(sum_over(default_group(), rank), 3);
    destroy_process_group();
  });
  test::expect_success(errors);
}

// One that a program wrote itself.
class CountingStore final : public KeyValueStore {
 public:
  void set(const std::string& key, const std::string& value) override { count().set(key, value); }
  std::string get(const std::string& key) override { return count().get(key); }
  std::int64_t add(const std::string& key, std::int64_t amount) override { return count().add(key, amount); }
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired) override {
    return count().compare_set(key, expected, desired);
  }
  bool wait_for(std::span<const std::string> keys, std::chrono::milliseconds timeout) override {
    return count().wait_for(keys, timeout);
  }
  bool delete_key(const std::string& key) override { return count().delete_key(key); }

  std::atomic<int> calls = 0;

 private:
  KeyValueStore& count() {
    ++calls;
    return *inner_;
  }
  const std::shared_ptr<KeyValueStore> inner_ = make_hash_store();
};

TEST(ThreadWorlds, MeetThroughAStoreThatAProgramWrote) {
  const auto store = std::make_shared<CountingStore>();
  const auto errors = test::on_threads(2, [&](int rank) {
    const ThreadWorld mine({rank, 2, nullptr, "threads"});
    InitOptions options;
    options.rank = rank;
    options.world_size = 2;
    options.store = store;
    init_process_group(options);
    EXPECT_EQ(sum_over(new_group(), 1), 2);
    destroy_process_group();
  });
  test::expect_success(errors);
  EXPECT_GT(store->calls, 4);
}

TEST(Stores, FollowTheirHeader) {
  const auto store = make_prefix_store("a", make_hash_store());
  const std::vector<std::string> keys = {"key"};
  EXPECT_FALSE(store->wait_for(keys, std::chrono::milliseconds(0)));
  EXPECT_FALSE(store->wait_for(keys, std::chrono::milliseconds(5)));
  EXPECT_EQ(store->compare_set("key", "", "1"), "1");
  EXPECT_EQ(store->compare_set("key", "2", "3"), "1");
  EXPECT_TRUE(store->wait_for(keys, std::chrono::milliseconds(0)));
  EXPECT_EQ(store->add("key", 4), 5);
  store->set("key", "x");
  EXPECT_EQ(store->get("key"), "x");
  EXPECT_THROW(store->add("key", 1), DistStoreError);
  EXPECT_TRUE(store->delete_key("key"));
  EXPECT_FALSE(store->delete_key("key"));
}

}  // namespace
}  // namespace dlaunch::internal
