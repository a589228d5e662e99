// What all stores have in common: stores_test.cpp.
#include "store/client/hash_store.h"

#include <gtest/gtest.h>

#include <thread>

namespace dlaunch::store {
namespace {

using namespace std::chrono_literals;

TEST(HashStore, TimeoutNamesTheKey) {
  HashStore store;
  try {
    store.wait(std::vector<std::string>{"a", "b", "c", "d", "e"}, 10ms);
    FAIL();
  } catch (const StoreError& error) {
    EXPECT_STREQ(error.what(), "store in this process: waited 10 ms for keys 'a', 'b', 'c' and 2 more");
  }
  store.set("k", "text");
  try {
    store.add("k", 1);
    FAIL();
  } catch (const StoreError& error) {
    EXPECT_EQ(error.error().kind, ErrorKind::invalid);
  }
}

TEST(HashStore, AQueueIsPresentButHasNoValue) {
  HashStore store;
  store.set_timeout(0s);
  store.queue_push("q", "x");
  EXPECT_TRUE(store.check(std::vector<std::string>{"q"}));
  EXPECT_EQ(store.num_keys(), 0);
  EXPECT_THROW(store.get("q"), StoreError);
  EXPECT_EQ(store.queue_pop("q", true), "x");
  EXPECT_FALSE(store.check(std::vector<std::string>{"q"})) << "an empty queue is none";
  EXPECT_EQ(store.queue_pop("q", false), std::nullopt);
  EXPECT_THROW(store.queue_pop("q", true), StoreError);
}

TEST(HashStore, AWaitDoesNotHoldUpOtherCalls) {
  HashStore store;
  std::thread waiting([&] { EXPECT_EQ(store.get("late"), "v"); });
  store.set("other", "1");
  EXPECT_EQ(store.add("other", 1), 2);
  store.set("late", "v");
  waiting.join();
}

TEST(HashStore, ABarrierThatIsIncompleteNamesItsSize) {
  HashStore store;
  store.set_timeout(1ms);
  try {
    store.barrier("b", 2);
    FAIL();
  } catch (const StoreError& error) {
    EXPECT_STREQ(error.what(), "store in this process: waited 1 ms for all 2 at barrier 'b'");
  }
  store.barrier("b", 2);  // the first call counts
}

}  // namespace
}  // namespace dlaunch::store
