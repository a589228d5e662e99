// What every store promises (store.h), asked of each of them.
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "store/hash_store.h"
#include "store/prefix_store.h"
#include "tests/store/server_thread.h"

namespace dlaunch {
namespace {

using namespace std::chrono_literals;

// Makes stores that share their keys; each thread of a test takes one.
struct HashStores {
  std::shared_ptr<HashStore> shared = std::make_shared<HashStore>();
  std::shared_ptr<Store> make() { return shared; }
};
struct PrefixStores {
  std::shared_ptr<HashStore> shared = std::make_shared<HashStore>();
  std::shared_ptr<Store> make() {
    return std::make_shared<PrefixStore>("outer", std::make_shared<PrefixStore>("inner", shared));
  }
};
template <Dialect dialect>
struct TcpStores {
  test::ServerThread server;
  std::shared_ptr<Store> make() { return std::make_shared<TcpStore>(server.client_options(dialect)); }
};

template <class Stores>
class StoreContract : public testing::Test {
 protected:
  void fails(ErrorKind kind, const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE() << "did not fail";
    } catch (const StoreError& error) {
      EXPECT_EQ(error.error().kind, kind) << error.what();
    }
  }

  Stores stores;
  std::shared_ptr<Store> store = stores.make();
};

struct Names {
  template <class Stores>
  static std::string GetName(int) {  // NOLINT(readability-identifier-naming)
    if (std::is_same_v<Stores, HashStores>) return "Hash";
    if (std::is_same_v<Stores, PrefixStores>) return "Prefix";
    if (std::is_same_v<Stores, TcpStores<Dialect::v1_13>>) return "Tcp_1_13";
    if (std::is_same_v<Stores, TcpStores<Dialect::v2_1>>) return "Tcp_2_1";
    return "Tcp";
  }
};
using AllStores = testing::Types<HashStores, PrefixStores, TcpStores<Dialect::v1_13>,
                                 TcpStores<Dialect::v2_1>, TcpStores<Dialect::v2_2>>;
TYPED_TEST_SUITE(StoreContract, AllStores, Names);

TYPED_TEST(StoreContract, SetAndGet) {
  this->store->set("k", "v");
  EXPECT_EQ(this->store->get("k"), "v");
  this->store->set("k", std::string_view("\0", 1));
  EXPECT_EQ(this->store->get("k"), std::string("\0", 1));
  this->store->set("k", "");
  EXPECT_EQ(this->store->get("k"), "");
  this->store->set("", "nameless");
  EXPECT_EQ(this->store->get(""), "nameless");
}

TYPED_TEST(StoreContract, Add) {
  EXPECT_EQ(this->store->add("n", 5), 5);
  EXPECT_EQ(this->store->add("n", -7), -2);
  EXPECT_EQ(this->store->get("n"), "-2");
  EXPECT_EQ(this->store->add("zero", 0), 0);
  EXPECT_EQ(this->store->get("zero"), "0");
  this->store->set("n", " 7x");
  EXPECT_EQ(this->store->add("n", 1), 8);
  this->store->set("n", "9223372036854775807");
  EXPECT_EQ(this->store->add("n", 1), std::numeric_limits<std::int64_t>::min());
}

TYPED_TEST(StoreContract, AddToTextFails) {
  this->store->set("k", "text");
  EXPECT_THROW(this->store->add("k", 1), StoreError);
}

TYPED_TEST(StoreContract, CompareSet) {
  EXPECT_EQ(this->store->compare_set("k", "x", "y"), "x");
  EXPECT_FALSE(this->store->check(std::vector<std::string>{"k"}));
  EXPECT_EQ(this->store->compare_set("k", "", "first"), "first");
  EXPECT_EQ(this->store->compare_set("k", "wrong", "y"), "first");
  EXPECT_EQ(this->store->compare_set("k", "", "y"), "first");
  EXPECT_EQ(this->store->compare_set("k", "first", "second"), "second");
  EXPECT_EQ(this->store->get("k"), "second");
}

TYPED_TEST(StoreContract, CheckCountAndDelete) {
  EXPECT_TRUE(this->store->check({}));
  EXPECT_EQ(this->store->num_keys(), 0);
  this->store->set("a", "");
  this->store->add("b", 1);
  EXPECT_TRUE(this->store->check(std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(this->store->check(std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(this->store->num_keys(), 2);
  EXPECT_TRUE(this->store->delete_key("a"));
  EXPECT_FALSE(this->store->delete_key("a"));
  EXPECT_EQ(this->store->num_keys(), 1);
}

TYPED_TEST(StoreContract, WaitsForOthers) {
  std::thread setter([other = this->stores.make()] {
    other->set("a", "1");
    other->add("b", 0);
    other->compare_set("c", "", "3");
  });
  this->store->wait(std::vector<std::string>{"a", "b", "c"});
  EXPECT_EQ(this->store->get("c"), "3");
  setter.join();
  this->store->wait({});
}

TYPED_TEST(StoreContract, TimesOutAndStaysUsable) {
  const std::vector<std::string> keys = {"never"};
  this->fails(ErrorKind::timeout, [&] { this->store->wait(keys, 10ms); });
  this->store->set_timeout(10ms);
  EXPECT_EQ(this->store->timeout(), Duration(10ms));
  this->fails(ErrorKind::timeout, [&] { this->store->get("never"); });
  this->fails(ErrorKind::timeout, [&] { this->store->multi_get(keys); });
  this->store->set("never", "after all");
  EXPECT_EQ(this->store->get("never"), "after all");
}

TYPED_TEST(StoreContract, NoTimeMeansNoWaiting) {
  const std::vector<std::string> keys = {"k"};
  this->fails(ErrorKind::timeout, [&] { this->store->wait(keys, Duration::zero()); });
  this->store->set("k", "v");
  this->store->wait(keys, Duration::zero());
  this->store->set_timeout(-1s);
  EXPECT_EQ(this->store->get("k"), "v");
}

TYPED_TEST(StoreContract, ForEverIsATimeoutToo) {
  this->store->set_timeout(Duration::max());
  this->store->set("k", "v");
  EXPECT_EQ(this->store->get("k"), "v");
}

TYPED_TEST(StoreContract, ManyAtOnce) {
  const std::vector<std::string> keys = {"a", "b"};
  const std::vector<std::string> values = {"1", ""};
  this->store->multi_set(keys, values);
  EXPECT_EQ(this->store->multi_get(keys), values);
  EXPECT_TRUE(this->store->multi_get({}).empty());
}

TYPED_TEST(StoreContract, CountsWithoutLosingAny) {
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([store = this->stores.make()] {
      for (int n = 0; n < 50; ++n) store->add("n", 1);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(this->store->add("n", 0), 200);
}

// What only the newer ones have.
template <class Stores>
class NewerStores : public StoreContract<Stores> {};
using NewStores = testing::Types<HashStores, PrefixStores, TcpStores<Dialect::v2_2>>;
TYPED_TEST_SUITE(NewerStores, NewStores, Names);

TYPED_TEST(NewerStores, Append) {
  this->store->append("k", "po");
  this->store->append("k", "tato");
  EXPECT_EQ(this->store->get("k"), "potato");
}

TYPED_TEST(NewerStores, Queues) {
  EXPECT_EQ(this->store->queue_pop("q", false), std::nullopt);
  this->store->queue_push("q", "1");
  this->store->queue_push("q", "2");
  EXPECT_EQ(this->store->queue_len("q"), 2);
  EXPECT_TRUE(this->store->check(std::vector<std::string>{"q"}));
  EXPECT_EQ(this->store->num_keys(), 0);
  EXPECT_EQ(this->store->queue_pop("q", true), "1");
  EXPECT_EQ(this->store->queue_pop("q", false), "2");
  std::thread pusher([other = this->stores.make()] { other->queue_push("q", "3"); });
  EXPECT_EQ(this->store->queue_pop("q", true), "3");
  pusher.join();
  this->store->set_timeout(10ms);
  this->fails(ErrorKind::timeout, [&] { this->store->queue_pop("q", true); });
}

TYPED_TEST(NewerStores, Barrier) {
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([store = this->stores.make()] { store->barrier("b", 3); });
  }
  for (auto& thread : threads) thread.join();
  this->store->set_timeout(10ms);
  this->fails(ErrorKind::timeout, [&] { this->store->barrier("other", 2); });
}

TEST(PrefixStore, PutsItsPrefixInFront) {
  auto inner = std::make_shared<HashStore>();
  PrefixStore("pre", inner).set("a", "1");
  PrefixStore("", inner).set("a", "2");
  PrefixStore("outer", std::make_shared<PrefixStore>("inner", inner)).set("a", "3");
  EXPECT_EQ(inner->list_keys(), (std::vector<std::string>{"/a", "inner/outer/a", "pre/a"}));
}

TEST(HashStore, SaysWhatItWaitedFor) {
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

}  // namespace
}  // namespace dlaunch
