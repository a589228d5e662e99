// What every store promises (store.h), asked of each of them.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <thread>

#include "store/file_store.h"
#include "store/hash_store.h"
#include "store/hosted_store.h"
#include "store/prefix_store.h"
#include "tests/store/server_thread.h"
#include "tests/store/temporary_folder.h"

namespace dlaunch {
namespace {

using namespace std::chrono_literals;

// Makes stores that share their keys; each thread of a test takes one. `where` is how their errors begin.
struct HashStores {
  static constexpr const char* name = "Hash";
  static constexpr std::int64_t own_keys = 0;  // that a new store counts as num_keys
  std::shared_ptr<HashStore> shared = std::make_shared<HashStore>();
  std::shared_ptr<Store> make() { return shared; }
  static std::string where() { return "store in this process"; }
  static std::string full(const std::string& key) { return key; }
};
struct FileStores {
  static constexpr const char* name = "File";
  static constexpr std::int64_t own_keys = 1;
  test::TemporaryFolder folder;
  std::string path = folder.path() + "/store";
  std::shared_ptr<Store> make() {
    FileStoreOptions options;
    options.path = path;
    options.timeout = 60s;
    return std::make_shared<FileStore>(options);
  }
  std::string where() const { return "file store " + path; }
  static std::string full(const std::string& key) { return key; }
};
template <Dialect dialect>
struct TcpStores {
  static constexpr const char* name = dialect == Dialect::v1_13  ? "Tcp_1_13"
                                      : dialect == Dialect::v2_1 ? "Tcp_2_1"
                                                                 : "Tcp";
  static constexpr std::int64_t own_keys = 0;
  test::ServerThread server;
  std::shared_ptr<Store> make() { return std::make_shared<TcpStore>(server.client_options(dialect)); }
  std::string where() const { return "store " + to_string(server.address()); }
  static std::string full(const std::string& key) { return key; }
};
using NewTcpStores = TcpStores<Dialect::v2_2>;
// The master, and clients of it.
struct HostedStores {
  static constexpr const char* name = "Hosted";
  static constexpr std::int64_t own_keys = 0;
  HostedStoreOptions options = [] {
    HostedStoreOptions master;
    master.address = {"127.0.0.1", 0};
    master.listen_host = "127.0.0.1";
    master.is_master = true;
    master.timeout = 60s;
    return master;
  }();
  std::shared_ptr<Store> make() {
    auto store = std::make_shared<HostedStore>(options);
    options.is_master = false;
    options.address.port = store->port();
    return store;
  }
  std::string where() const { return "store " + to_string(options.address); }
  static std::string full(const std::string& key) { return key; }
};
template <class Inner>
struct Prefixed : Inner {
  std::shared_ptr<Store> make() {
    return std::make_shared<PrefixStore>("outer", std::make_shared<PrefixStore>("inner", Inner::make()));
  }
  static std::string full(const std::string& key) { return "inner/outer/" + key; }
};

template <class Stores>
class StoreContract : public testing::Test {
 protected:
  std::string fails(ErrorKind kind, const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE() << "did not fail";
      return "";
    } catch (const StoreError& error) {
      EXPECT_EQ(error.error().kind, kind) << error.what();
      return error.what();
    }
  }
  // Another thread's part of the test, with a store of its own.
  std::thread other(const std::function<void(Store&)>& part) {
    return std::thread([part, store = stores.make()] { part(*store); });
  }

  Stores stores;
  std::shared_ptr<Store> store = stores.make();
};

struct Names {
  template <class Stores>
  static std::string GetName(int) {  // NOLINT(readability-identifier-naming)
    return std::string(Stores::full("").empty() ? "" : "Prefix_over_") + Stores::name;
  }
};
using AllStores = testing::Types<HashStores, FileStores, HostedStores, NewTcpStores,
                                 TcpStores<Dialect::v1_13>, TcpStores<Dialect::v2_1>, Prefixed<HashStores>,
                                 Prefixed<FileStores>, Prefixed<NewTcpStores>>;
TYPED_TEST_SUITE(StoreContract, AllStores, Names);

using Keys = std::vector<std::string>;

TYPED_TEST(StoreContract, SetAndGet) {
  this->store->set("k", "v");
  EXPECT_EQ(this->store->get("k"), "v");
  this->store->set("k", "another");
  EXPECT_EQ(this->store->get("k"), "another");
}

TYPED_TEST(StoreContract, KeysAndValuesAreAnyBytes) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  this->store->set(all, all);
  EXPECT_EQ(this->store->get(all), all);
  EXPECT_TRUE(this->store->check(Keys{all}));
  this->store->set("k", "");
  EXPECT_EQ(this->store->get("k"), "");
  EXPECT_TRUE(this->store->check(Keys{"k"}));
  this->store->set("", "nameless");
  EXPECT_EQ(this->store->get(""), "nameless");
  this->store->set("-/k", "looks like a file's deletion");
  EXPECT_EQ(this->store->get("k"), "");
  const std::string large(3 << 20, 'x');
  this->store->set("large", large);
  EXPECT_TRUE(this->stores.make()->get("large") == large);
}

TYPED_TEST(StoreContract, AddKeepsDecimalText) {
  EXPECT_EQ(this->store->add("n", 5), 5);
  EXPECT_EQ(this->store->add("n", -7), -2);
  EXPECT_EQ(this->store->get("n"), "-2");
  EXPECT_EQ(this->store->add("zero", 0), 0);
  EXPECT_EQ(this->store->get("zero"), "0");
  this->store->set("n", "41");
  EXPECT_EQ(this->store->add("n", 1), 42);
}

TYPED_TEST(StoreContract, AddReadsNumbersAsPyTorchDoes) {
  this->store->set("n", " 7x");
  EXPECT_EQ(this->store->add("n", 1), 8);
  this->store->set("n", "+3");
  EXPECT_EQ(this->store->add("n", 1), 4);
  this->store->set("n", "9223372036854775807");
  EXPECT_EQ(this->store->add("n", 1), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(this->store->add("n", -1), std::numeric_limits<std::int64_t>::max());
}

TYPED_TEST(StoreContract, AddToWhatIsNoNumberFails) {
  for (const char* text : {"", "text", " ", "99999999999999999999"}) {
    const auto one = this->stores.make();  // a server hangs up
    one->set("k", text);
    EXPECT_THROW(one->add("k", 1), StoreError) << text;
    EXPECT_EQ(this->store->get("k"), text);
  }
}

TYPED_TEST(StoreContract, CompareSet) {
  EXPECT_EQ(this->store->compare_set("k", "x", "y"), "x");  // absent, something expected: nothing happens
  EXPECT_FALSE(this->store->check(Keys{"k"}));
  EXPECT_EQ(this->store->compare_set("k", "", "first"), "first");
  EXPECT_EQ(this->store->compare_set("k", "wrong", "y"), "first");
  EXPECT_EQ(this->store->compare_set("k", "", "y"), "first");
  EXPECT_EQ(this->store->compare_set("k", "first", "second"), "second");
  EXPECT_EQ(this->store->get("k"), "second");
  this->store->set("k", "");
  EXPECT_EQ(this->store->compare_set("k", "", "third"), "third");
  EXPECT_EQ(this->store->compare_set("k", "third", ""), "");
  EXPECT_EQ(this->store->get("k"), "");
}

TYPED_TEST(StoreContract, CheckCountAndDelete) {
  EXPECT_TRUE(this->store->check({}));
  const std::int64_t before = this->store->num_keys();
  EXPECT_EQ(before, TypeParam::own_keys);
  this->store->set("a", "");
  this->store->add("b", 1);
  EXPECT_TRUE(this->store->check(Keys{"a", "b"}));
  EXPECT_FALSE(this->store->check(Keys{"a", "c"}));
  EXPECT_EQ(this->store->num_keys(), before + 2);
  EXPECT_TRUE(this->store->delete_key("a"));
  EXPECT_FALSE(this->store->delete_key("a"));
  EXPECT_FALSE(this->store->check(Keys{"a"}));
  EXPECT_EQ(this->store->num_keys(), before + 1);
  this->store->set("a", "again");
  EXPECT_EQ(this->store->get("a"), "again");
}

TYPED_TEST(StoreContract, WaitsForAllOfItsKeys) {
  std::thread setter = this->other([](Store& shared) {
    shared.set("a", "1");
    shared.add("b", 0);
    shared.compare_set("c", "", "3");
  });
  this->store->wait(Keys{"a", "b", "c", "a"});  // one twice
  EXPECT_EQ(this->store->get("c"), "3");
  setter.join();
  this->store->wait({});
}

// Two threads that wait for each other in turns, so that each is waiting most of the time when the other
// writes.
TYPED_TEST(StoreContract, EveryWayToWriteWakes) {
  using Write = std::function<void(Store&, const std::string&)>;
  const std::vector<Write> ways = {
      [](Store& shared, const std::string& key) { shared.set(key, "v"); },
      [](Store& shared, const std::string& key) { shared.add(key, 0); },
      [](Store& shared, const std::string& key) { shared.compare_set(key, "", "v"); },
      [](Store& shared, const std::string& key) { shared.multi_set(Keys{key}, Keys{"v"}); },
  };
  constexpr int rounds = 12;
  std::thread echo = this->other([&ways](Store& shared) {
    for (int i = 0; i < rounds; ++i) {
      shared.wait(Keys{"ping" + std::to_string(i)});
      ways[static_cast<std::size_t>(i) % ways.size()](shared, "pong" + std::to_string(i));
    }
  });
  for (int i = 0; i < rounds; ++i) {
    ways[static_cast<std::size_t>(i) % ways.size()](*this->store, "ping" + std::to_string(i));
    this->store->get("pong" + std::to_string(i));
  }
  echo.join();
}

TYPED_TEST(StoreContract, ADeletedKeyIsWaitedForAgain) {
  this->store->set("a", "1");
  this->store->delete_key("a");
  const std::string said = this->fails(ErrorKind::timeout, [&] { this->store->wait(Keys{"a"}, 10ms); });
  std::thread setter = this->other([](Store& shared) { shared.set("a", "2"); });
  EXPECT_EQ(this->store->get("a"), "2");
  setter.join();
}

TYPED_TEST(StoreContract, ATimeoutSaysWhereHowLongAndForWhat) {
  EXPECT_EQ(this->fails(ErrorKind::timeout, [&] { this->store->wait(Keys{"never"}, 10ms); }),
            this->stores.where() + ": waited 10 ms for key '" + TypeParam::full("never") + "'");
  this->store->set("a", "1");
  EXPECT_EQ(this->fails(ErrorKind::timeout,
                        [&] {
                          this->store->wait(Keys{"a", "b"}, Duration::zero());
                        }),
            this->stores.where() + ": waited 0 ms for keys '" + TypeParam::full("a") + "', '" +
                TypeParam::full("b") + "'");
}

TYPED_TEST(StoreContract, TimesOutAndStaysUsable) {
  this->store->set_timeout(10ms);
  EXPECT_EQ(this->store->timeout(), Duration(10ms));
  this->fails(ErrorKind::timeout, [&] { this->store->get("never"); });
  this->fails(ErrorKind::timeout, [&] { this->store->multi_get(Keys{"never"}); });
  this->store->set("never", "after all");
  EXPECT_EQ(this->store->get("never"), "after all");
}

TYPED_TEST(StoreContract, NoTimeMeansNoWaiting) {
  this->fails(ErrorKind::timeout, [&] { this->store->wait(Keys{"k"}, Duration::zero()); });
  this->fails(ErrorKind::timeout, [&] { this->store->wait(Keys{"k"}, -1s); });
  this->store->set("k", "v");
  this->store->wait(Keys{"k"}, Duration::zero());
  this->store->set_timeout(-1s);
  EXPECT_EQ(this->store->get("k"), "v");
  EXPECT_EQ(this->store->add("n", 1), 1);
  EXPECT_EQ(this->store->compare_set("c", "", "d"), "d");
  EXPECT_TRUE(this->store->delete_key("c"));
}

TYPED_TEST(StoreContract, ForEverIsATimeoutToo) {
  this->store->set_timeout(Duration::max());
  this->store->set("k", "v");
  EXPECT_EQ(this->store->get("k"), "v");
}

TYPED_TEST(StoreContract, ManyAtOnce) {
  const Keys keys = {"a", "b"};
  const Keys values = {"1", ""};
  this->store->multi_set(keys, values);
  EXPECT_EQ(this->store->multi_get(keys), values);
  EXPECT_TRUE(this->store->multi_get({}).empty());
  std::thread setter = this->other([](Store& shared) { shared.multi_set(Keys{"c", "d"}, Keys{"3", "4"}); });
  EXPECT_EQ(this->store->multi_get(Keys{"d", "a", "c"}), (Keys{"4", "1", "3"}));
  setter.join();
}

TYPED_TEST(StoreContract, CountsWithoutLosingAny) {
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.push_back(this->other([](Store& shared) {
      for (int n = 0; n < 50; ++n) shared.add("n", 1);
    }));
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(this->store->add("n", 0), 200);
}

TYPED_TEST(StoreContract, OnlyOneWinsACompareSet) {
  std::vector<std::thread> threads;
  std::atomic<int> winners = 0;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.push_back(this->other([i, &winners](Store& shared) {
      const std::string mine = "thread " + std::to_string(i);
      if (shared.compare_set("leader", "", mine) == mine) ++winners;
    }));
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(winners, 1);
}

TYPED_TEST(StoreContract, Barrier) {
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int i = 0; i < 3; ++i) {
    threads.push_back(this->other([](Store& shared) { shared.barrier("b", 3); }));
  }
  for (auto& thread : threads) thread.join();
  this->store->barrier("b", 3);  // passes: the count is never taken back
  this->store->set_timeout(10ms);
  this->fails(ErrorKind::timeout, [&] { this->store->barrier("other", 2); });
  this->store->barrier("other", 2);  // one who gave up stays counted
}

// What not all of them have.
template <class Stores>
class AppendingStores : public StoreContract<Stores> {};
using StoresWithAppend = testing::Types<HashStores, FileStores, NewTcpStores, TcpStores<Dialect::v2_1>,
                                        Prefixed<HashStores>, Prefixed<FileStores>, Prefixed<NewTcpStores>>;
TYPED_TEST_SUITE(AppendingStores, StoresWithAppend, Names);

TYPED_TEST(AppendingStores, Append) {
  std::thread waiter = this->other([](Store& shared) { shared.wait(Keys{"k"}); });
  this->store->append("k", "po");
  waiter.join();
  this->store->append("k", "");
  this->store->append("k", "tato");
  EXPECT_EQ(this->store->get("k"), "potato");
  EXPECT_EQ(this->store->add("n", 1), 1);
  this->store->append("n", "2");
  EXPECT_EQ(this->store->add("n", 1), 13);
}

template <class Stores>
class ListingStores : public StoreContract<Stores> {};
using StoresWithLists = testing::Types<HashStores, FileStores, NewTcpStores, Prefixed<HashStores>,
                                       Prefixed<FileStores>, Prefixed<NewTcpStores>>;
TYPED_TEST_SUITE(ListingStores, StoresWithLists, Names);

TYPED_TEST(ListingStores, ListsTheUsersKeys) {
  EXPECT_TRUE(this->store->list_keys().empty());
  this->store->multi_set(Keys{"b", "a/c", "gone"}, Keys{"", "", ""});
  this->store->delete_key("gone");
  EXPECT_EQ(this->store->list_keys(), (Keys{"a/c", "b"}));
}

template <class Stores>
class QueueingStores : public StoreContract<Stores> {};
using StoresWithQueues =
    testing::Types<HashStores, NewTcpStores, Prefixed<HashStores>, Prefixed<NewTcpStores>>;
TYPED_TEST_SUITE(QueueingStores, StoresWithQueues, Names);

TYPED_TEST(QueueingStores, TheOldestComesFirst) {
  EXPECT_EQ(this->store->queue_pop("q", false), std::nullopt);
  EXPECT_EQ(this->store->queue_len("q"), 0);
  this->store->queue_push("q", "1");
  this->store->queue_push("q", "");
  EXPECT_EQ(this->store->queue_len("q"), 2);
  EXPECT_EQ(this->store->queue_pop("q", true), "1");
  EXPECT_EQ(this->store->queue_pop("q", false), "");
  EXPECT_EQ(this->store->queue_pop("q", false), std::nullopt);
}

TYPED_TEST(QueueingStores, AreNoKeysButCountAsPresent) {
  this->store->queue_push("q", "1");
  EXPECT_TRUE(this->store->check(Keys{"q"}));
  this->store->wait(Keys{"q"}, Duration::zero());
  EXPECT_EQ(this->store->num_keys(), TypeParam::own_keys);
  EXPECT_FALSE(this->store->delete_key("q"));
  EXPECT_EQ(this->store->queue_len("q"), 1);
  this->store->set("q", "a key of the same name");
  EXPECT_EQ(this->store->queue_pop("q", true), "1");
  EXPECT_EQ(this->store->get("q"), "a key of the same name");
}

TYPED_TEST(QueueingStores, APopWaitsForAPush) {
  std::thread pusher = this->other([](Store& shared) { shared.queue_push("q", "3"); });
  EXPECT_EQ(this->store->queue_pop("q", true), "3");
  pusher.join();
  this->store->set_timeout(10ms);
  this->fails(ErrorKind::timeout, [&] { this->store->queue_pop("q", true); });
}

TYPED_TEST(QueueingStores, TwoWhoPopBothGetTheirs) {
  std::atomic<int> got = 0;
  std::vector<std::thread> threads;
  threads.reserve(2);
  for (int i = 0; i < 2; ++i) {
    threads.push_back(this->other([&got](Store& shared) {
      for (int n = 0; n < 20; ++n) got += std::stoi(shared.queue_pop("q", true).value());
    }));
  }
  for (int n = 0; n < 40; ++n) this->store->queue_push("q", std::to_string(n));
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(got, 39 * 40 / 2);
}

TEST(FileStore, HasNoQueues) {
  FileStores stores;
  EXPECT_THROW(stores.make()->queue_push("q", ""), StoreError);
}

TEST(PrefixStore, PutsItsPrefixInFront) {
  auto inner = std::make_shared<HashStore>();
  PrefixStore("pre", inner).set("a", "1");
  PrefixStore("", inner).set("a", "2");
  PrefixStore("outer", std::make_shared<PrefixStore>("inner", inner)).set("a", "3");
  EXPECT_EQ(inner->list_keys(), (std::vector<std::string>{"/a", "inner/outer/a", "pre/a"}));
  EXPECT_EQ(PrefixStore("pre", inner).list_keys(), (std::vector<std::string>{"a"}));
  EXPECT_EQ(PrefixStore("pre", inner).num_keys(), 3);
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
