#include "store/client/prefix_store.h"

#include <gtest/gtest.h>

#include "store/client/hash_store.h"

namespace dlaunch::store {
namespace {

TEST(PrefixStore, PutsItsPrefixInFront) {
  auto inner = std::make_shared<HashStore>();
  PrefixStore("pre", inner).set("a", "1");
  PrefixStore("", inner).set("a", "2");
  PrefixStore("outer", std::make_shared<PrefixStore>("inner", inner)).set("a", "3");
  EXPECT_EQ(inner->list_keys(), (std::vector<std::string>{"/a", "inner/outer/a", "pre/a"}));
  EXPECT_EQ(PrefixStore("pre", inner).list_keys(), (std::vector<std::string>{"a"}));
  EXPECT_EQ(PrefixStore("pre", inner).num_keys(), 3);
}

TEST(PrefixStore, EveryCallIsOfThePrefixedKey) {
  auto inner = std::make_shared<HashStore>();
  PrefixStore store("p", inner);
  const std::vector<std::string> keys{"a", "b"};
  store.multi_set(keys, std::vector<std::string>{"1", "2"});
  EXPECT_EQ(inner->get("p/b"), "2");
  EXPECT_EQ(store.multi_get(keys), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(store.add("a", 4), 5);
  EXPECT_EQ(store.compare_set("b", "2", "3"), "3");
  store.append("b", "4");
  EXPECT_EQ(inner->get("p/b"), "34");
  store.queue_push("q", "x");
  EXPECT_EQ(inner->queue_len("p/q"), 1);
  EXPECT_EQ(store.queue_len("q"), 1);
  EXPECT_EQ(store.queue_pop("q", false), "x");
  EXPECT_TRUE(store.check(keys));
  EXPECT_FALSE(inner->check(keys));
  store.wait(keys);
  store.barrier("all", 1);
  EXPECT_TRUE(store.delete_key("a"));
  EXPECT_FALSE(store.check(keys));
}

TEST(PrefixStore, TheTimeoutIsTheOtherStores) {
  auto inner = std::make_shared<HashStore>();
  PrefixStore store("p", inner);
  store.set_timeout(std::chrono::milliseconds(7));
  EXPECT_EQ(inner->timeout(), std::chrono::milliseconds(7));
  EXPECT_EQ(store.timeout(), std::chrono::milliseconds(7));
  try {
    store.get("missing");
    FAIL();
  } catch (const StoreError& error) {
    EXPECT_STREQ(error.what(), "store in this process: waited 7 ms for key 'p/missing'");
  }
}

TEST(PrefixStore, AnotherPrefixThatBeginsTheSameIsAnother) {
  auto inner = std::make_shared<HashStore>();
  PrefixStore("a", inner).set("x", "1");
  PrefixStore("ab", inner).set("y", "2");
  EXPECT_EQ(PrefixStore("a", inner).list_keys(), std::vector<std::string>{"x"});
}

}  // namespace
}  // namespace dlaunch::store
