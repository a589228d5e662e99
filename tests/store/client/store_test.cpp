// What a store has that implements only what it must.
#include "store/client/store.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

namespace dlaunch::store {
namespace {

TEST(Store, ALackIsSaid) {
  struct Least final : Store {
    using Store::wait;
    void set(std::string_view, std::string_view) override {}
    std::string get(std::string_view key) override { return std::string(key); }
    std::int64_t add(std::string_view, std::int64_t) override { return 0; }
    std::string compare_set(std::string_view, std::string_view, std::string_view) override { return {}; }
    void wait(std::span<const std::string>, Duration) override {}
    bool check(std::span<const std::string>) override { return true; }
    std::int64_t num_keys() override { return 0; }
    bool delete_key(std::string_view) override { return false; }
    void set_timeout(Duration) override {}
    [[nodiscard]] Duration timeout() const override { return {}; }
  } least;
  EXPECT_EQ(least.multi_get(std::vector<std::string>{"a", "b"}), (std::vector<std::string>{"a", "b"}));
  try {
    least.queue_len("q");
    FAIL();
  } catch (const StoreError& error) {
    EXPECT_EQ(error.error().kind, ErrorKind::refused);
    EXPECT_STREQ(error.what(), "this kind of store has no queues");
  }
}

// Keeps values, and whether a wait is for what is there.
struct Values final : Store {
  using Store::wait;
  void set(std::string_view key, std::string_view value) override { values[std::string(key)] = value; }
  std::string get(std::string_view key) override { return values.at(std::string(key)); }
  std::int64_t add(std::string_view key, std::int64_t amount) override {
    return counts[std::string(key)] += amount;
  }
  std::string compare_set(std::string_view, std::string_view, std::string_view) override { return {}; }
  void wait(std::span<const std::string> keys, Duration) override {
    for (const std::string& key : keys) {
      if (!values.contains(key)) throw StoreError({ErrorKind::timeout, key, "", "", ""});
    }
  }
  bool check(std::span<const std::string>) override { return true; }
  std::int64_t num_keys() override { return 0; }
  bool delete_key(std::string_view) override { return false; }
  void set_timeout(Duration) override {}
  [[nodiscard]] Duration timeout() const override { return {}; }

  std::map<std::string, std::string> values;
  std::map<std::string, std::int64_t> counts;
};

TEST(Store, SeveralKeysAreSetOneAfterTheOther) {
  Values store;
  store.multi_set(std::vector<std::string>{"a", "b", "a"}, std::vector<std::string>{"1", "2", "3"});
  EXPECT_EQ(store.values, (std::map<std::string, std::string>{{"a", "3"}, {"b", "2"}}));
}

// PyTorch's names, since its clients may take part.
TEST(Store, ABarrierCountsMembersAndTheLastOneOpensIt) {
  Values store;
  EXPECT_THROW(store.barrier("b", 2), StoreError);
  EXPECT_EQ(store.counts.at("b/num_members"), 1);
  store.barrier("b", 2);
  EXPECT_EQ(store.values.at("b/last_member"), "1");
  store.barrier("b", 2);
}

TEST(Store, EachLackHasItsName) {
  Values store;
  const auto lack = [&](const std::function<void()>& call) {
    try {
      call();
      return std::string("none");
    } catch (const StoreError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(lack([&] { store.append("k", ""); }), "this kind of store has no append");
  EXPECT_EQ(lack([&] { store.queue_push("k", ""); }), "this kind of store has no queues");
  EXPECT_EQ(lack([&] { store.queue_pop("k", false); }), "this kind of store has no queues");
  EXPECT_EQ(lack([&] { store.list_keys(); }), "this kind of store has no list of keys");
}

}  // namespace
}  // namespace dlaunch::store
