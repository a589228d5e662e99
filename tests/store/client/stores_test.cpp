// The contract of store.h, checked on each kind of store.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <thread>

#include "store/client/file_store.h"
#include "store/client/hash_store.h"
#include "store/client/prefix_store.h"
#include "store/server/hosted_store.h"
#include "tests/store/client/temporary_folder.h"
#include "tests/store/server/server_thread.h"

namespace dlaunch::store {
namespace {

using namespace std::chrono_literals;

// Makes stores that share their keys; each thread of a test takes one.
struct Stores {
  virtual ~Stores() = default;
  virtual std::shared_ptr<Store> make() = 0;
  [[nodiscard]] virtual std::string where() const = 0;  // the beginning of their errors
  [[nodiscard]] virtual std::int64_t own_keys() const {
    return 0;
  }  // keys that num_keys counts in a new store
  [[nodiscard]] virtual std::string full(const std::string& key) const { return key; }
};
struct HashStores : Stores {
  std::shared_ptr<HashStore> shared = std::make_shared<HashStore>();
  std::shared_ptr<Store> make() override { return shared; }
  [[nodiscard]] std::string where() const override { return "store in this process"; }
};
struct FileStores : Stores {
  test::TemporaryFolder folder;
  std::string path = folder.path() + "/store";
  std::shared_ptr<Store> make() override {
    FileStoreOptions options;
    options.path = path;
    options.timeout = 60s;
    return std::make_shared<FileStore>(options);
  }
  [[nodiscard]] std::string where() const override { return "file store " + path; }
  [[nodiscard]] std::int64_t own_keys() const override { return 1; }
};
struct TcpStores : Stores {
  explicit TcpStores(Dialect dialect_in) : dialect(dialect_in) {}
  Dialect dialect;
  test::ServerThread server;
  std::shared_ptr<Store> make() override {
    return std::make_shared<TcpStore>(server.client_options(dialect));
  }
  [[nodiscard]] std::string where() const override { return "store " + to_string(server.address()); }
};
// The master, and clients of it.
struct HostedStores : Stores {
  HostedStoreOptions options = [] {
    HostedStoreOptions master;
    master.address = {"127.0.0.1", 0};
    master.listen_host = "127.0.0.1";
    master.is_master = true;
    master.timeout = 60s;
    return master;
  }();
  std::shared_ptr<Store> make() override {
    auto store = std::make_shared<HostedStore>(options);
    options.is_master = false;
    options.address.port = store->port();
    return store;
  }
  [[nodiscard]] std::string where() const override { return "store " + to_string(options.address); }
};
struct Prefixed : Stores {
  explicit Prefixed(std::unique_ptr<Stores> inner_in) : inner(std::move(inner_in)) {}
  std::unique_ptr<Stores> inner;
  std::shared_ptr<Store> make() override {
    return std::make_shared<PrefixStore>("outer", std::make_shared<PrefixStore>("inner", inner->make()));
  }
  [[nodiscard]] std::string where() const override { return inner->where(); }
  [[nodiscard]] std::int64_t own_keys() const override { return inner->own_keys(); }
  [[nodiscard]] std::string full(const std::string& key) const override { return "inner/outer/" + key; }
};

struct Kind {
  const char* name;
  std::unique_ptr<Stores> (*make)();
};
const Kind hash{"Hash", []() -> std::unique_ptr<Stores> { return std::make_unique<HashStores>(); }};
const Kind file{"File", []() -> std::unique_ptr<Stores> { return std::make_unique<FileStores>(); }};
const Kind hosted{"Hosted", []() -> std::unique_ptr<Stores> { return std::make_unique<HostedStores>(); }};
const Kind tcp{"Tcp", []() -> std::unique_ptr<Stores> { return std::make_unique<TcpStores>(Dialect::v2_2); }};
const Kind tcp_1_13{"Tcp_1_13",
                    []() -> std::unique_ptr<Stores> { return std::make_unique<TcpStores>(Dialect::v1_13); }};
const Kind tcp_2_1{"Tcp_2_1",
                   []() -> std::unique_ptr<Stores> { return std::make_unique<TcpStores>(Dialect::v2_1); }};
const Kind prefixed_hash{"Prefix_over_Hash",
                         []() -> std::unique_ptr<Stores> { return std::make_unique<Prefixed>(hash.make()); }};
const Kind prefixed_file{"Prefix_over_File",
                         []() -> std::unique_ptr<Stores> { return std::make_unique<Prefixed>(file.make()); }};
const Kind prefixed_tcp{"Prefix_over_Tcp",
                        []() -> std::unique_ptr<Stores> { return std::make_unique<Prefixed>(tcp.make()); }};
std::string name_of(const testing::TestParamInfo<Kind>& info) { return info.param.name; }

class StoreContract : public testing::TestWithParam<Kind> {
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
  // Another thread's part of the test, with its own store.
  std::thread other(const std::function<void(Store&)>& part) {
    return std::thread([part, store = stores->make()] { part(*store); });
  }

  std::unique_ptr<Stores> stores = GetParam().make();
  std::shared_ptr<Store> store = stores->make();
};
INSTANTIATE_TEST_SUITE_P(Stores, StoreContract,
                         testing::Values(hash, file, hosted, tcp, tcp_1_13, tcp_2_1, prefixed_hash,
                                         prefixed_file, prefixed_tcp),
                         name_of);

using Keys = std::vector<std::string>;

TEST_P(StoreContract, SetAndGet) {
  store->set("k", "v");
  EXPECT_EQ(store->get("k"), "v");
  store->set("k", "another");
  EXPECT_EQ(store->get("k"), "another");
}

TEST_P(StoreContract, KeysAndValuesAreAnyBytes) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  store->set(all, all);
  EXPECT_EQ(store->get(all), all);
  EXPECT_TRUE(store->check(Keys{all}));
  store->set("k", "");
  EXPECT_EQ(store->get("k"), "");
  EXPECT_TRUE(store->check(Keys{"k"}));
  store->set("", "nameless");
  EXPECT_EQ(store->get(""), "nameless");
  store->set("-/k", "looks like a file's deletion");
  EXPECT_EQ(store->get("k"), "");
  const std::string large(3 << 20, 'x');
  store->set("large", large);
  EXPECT_TRUE(stores->make()->get("large") == large);
}

TEST_P(StoreContract, AddKeepsDecimalText) {
  EXPECT_EQ(store->add("n", 5), 5);
  EXPECT_EQ(store->add("n", -7), -2);
  EXPECT_EQ(store->get("n"), "-2");
  EXPECT_EQ(store->add("zero", 0), 0);
  EXPECT_EQ(store->get("zero"), "0");
  store->set("n", "41");
  EXPECT_EQ(store->add("n", 1), 42);
}

TEST_P(StoreContract, AddReadsNumbersAsPyTorchDoes) {
  store->set("n", " 7x");
  EXPECT_EQ(store->add("n", 1), 8);
  store->set("n", "+3");
  EXPECT_EQ(store->add("n", 1), 4);
  store->set("n", "9223372036854775807");
  EXPECT_EQ(store->add("n", 1), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(store->add("n", -1), std::numeric_limits<std::int64_t>::max());
}

TEST_P(StoreContract, AddToWhatIsNoNumberFails) {
  for (const char* text : {"", "text", " ", "99999999999999999999"}) {
    const auto one = stores->make();  // a server may close the connection
    one->set("k", text);
    EXPECT_THROW(one->add("k", 1), StoreError) << text;
    EXPECT_EQ(store->get("k"), text);
  }
}

TEST_P(StoreContract, CompareSet) {
  EXPECT_EQ(store->compare_set("k", "x", "y"), "x");  // absent, something expected: stores nothing
  EXPECT_FALSE(store->check(Keys{"k"}));
  EXPECT_EQ(store->compare_set("k", "", "first"), "first");
  EXPECT_EQ(store->compare_set("k", "wrong", "y"), "first");
  EXPECT_EQ(store->compare_set("k", "", "y"), "first");
  EXPECT_EQ(store->compare_set("k", "first", "second"), "second");
  EXPECT_EQ(store->get("k"), "second");
  store->set("k", "");
  EXPECT_EQ(store->compare_set("k", "", "third"), "third");
  EXPECT_EQ(store->compare_set("k", "third", ""), "");
  EXPECT_EQ(store->get("k"), "");
}

TEST_P(StoreContract, CheckCountAndDelete) {
  EXPECT_TRUE(store->check({}));
  const std::int64_t before = store->num_keys();
  EXPECT_EQ(before, stores->own_keys());
  store->set("a", "");
  store->add("b", 1);
  EXPECT_TRUE(store->check(Keys{"a", "b"}));
  EXPECT_FALSE(store->check(Keys{"a", "c"}));
  EXPECT_EQ(store->num_keys(), before + 2);
  EXPECT_TRUE(store->delete_key("a"));
  EXPECT_FALSE(store->delete_key("a"));
  EXPECT_FALSE(store->check(Keys{"a"}));
  EXPECT_EQ(store->num_keys(), before + 1);
  store->set("a", "again");
  EXPECT_EQ(store->get("a"), "again");
}

TEST_P(StoreContract, WaitsForAllOfItsKeys) {
  std::thread setter = other([](Store& shared) {
    shared.set("a", "1");
    shared.add("b", 0);
    shared.compare_set("c", "", "3");
  });
  store->wait(Keys{"a", "b", "c", "a"});  // one twice
  EXPECT_EQ(store->get("c"), "3");
  setter.join();
  store->wait({});
}

// Two threads that wait for each other in turns, so that each mostly waits when the other writes.
TEST_P(StoreContract, EveryWayToWriteWakes) {
  using Write = std::function<void(Store&, const std::string&)>;
  const std::vector<Write> ways = {
      [](Store& shared, const std::string& key) { shared.set(key, "v"); },
      [](Store& shared, const std::string& key) { shared.add(key, 0); },
      [](Store& shared, const std::string& key) { shared.compare_set(key, "", "v"); },
      [](Store& shared, const std::string& key) { shared.multi_set(Keys{key}, Keys{"v"}); },
  };
  constexpr int rounds = 12;
  std::thread echo = other([&ways](Store& shared) {
    for (int i = 0; i < rounds; ++i) {
      shared.wait(Keys{"ping" + std::to_string(i)});
      ways[static_cast<std::size_t>(i) % ways.size()](shared, "pong" + std::to_string(i));
    }
  });
  for (int i = 0; i < rounds; ++i) {
    ways[static_cast<std::size_t>(i) % ways.size()](*store, "ping" + std::to_string(i));
    store->get("pong" + std::to_string(i));
  }
  echo.join();
}

TEST_P(StoreContract, ADeletedKeyIsWaitedForAgain) {
  store->set("a", "1");
  store->delete_key("a");
  const std::string said = fails(ErrorKind::timeout, [&] { store->wait(Keys{"a"}, 10ms); });
  std::thread setter = other([](Store& shared) { shared.set("a", "2"); });
  EXPECT_EQ(store->get("a"), "2");
  setter.join();
}

TEST_P(StoreContract, TimeoutNamesStoreDurationAndKey) {
  EXPECT_EQ(fails(ErrorKind::timeout, [&] { store->wait(Keys{"never"}, 10ms); }),
            stores->where() + ": waited 10 ms for key '" + stores->full("never") + "'");
  store->set("a", "1");
  EXPECT_EQ(
      fails(ErrorKind::timeout,
            [&] {
              store->wait(Keys{"a", "b"}, Duration::zero());
            }),
      stores->where() + ": waited 0 ms for keys '" + stores->full("a") + "', '" + stores->full("b") + "'");
}

// For an answer, on a busy machine.
constexpr auto long_enough = 30s;

TEST_P(StoreContract, TimesOutAndStaysUsable) {
  store->set_timeout(10ms);
  EXPECT_EQ(store->timeout(), Duration(10ms));
  fails(ErrorKind::timeout, [&] { store->get("never"); });
  fails(ErrorKind::timeout, [&] { store->multi_get(Keys{"never"}); });
  store->set_timeout(long_enough);
  store->set("never", "after all");
  EXPECT_EQ(store->get("never"), "after all");
}

TEST_P(StoreContract, NoTimeMeansNoWaiting) {
  fails(ErrorKind::timeout, [&] { store->wait(Keys{"k"}, Duration::zero()); });
  fails(ErrorKind::timeout, [&] { store->wait(Keys{"k"}, -1s); });
  store->set("k", "v");
  store->wait(Keys{"k"}, Duration::zero());
  store->set_timeout(-1s);
  EXPECT_EQ(store->get("k"), "v");
  EXPECT_EQ(store->add("n", 1), 1);
  EXPECT_EQ(store->compare_set("c", "", "d"), "d");
  EXPECT_TRUE(store->delete_key("c"));
}

TEST_P(StoreContract, ForEverIsATimeoutToo) {
  store->set_timeout(Duration::max());
  store->set("k", "v");
  EXPECT_EQ(store->get("k"), "v");
}

TEST_P(StoreContract, ManyAtOnce) {
  const Keys keys = {"a", "b"};
  const Keys values = {"1", ""};
  store->multi_set(keys, values);
  EXPECT_EQ(store->multi_get(keys), values);
  EXPECT_TRUE(store->multi_get({}).empty());
  std::thread setter = other([](Store& shared) { shared.multi_set(Keys{"c", "d"}, Keys{"3", "4"}); });
  EXPECT_EQ(store->multi_get(Keys{"d", "a", "c"}), (Keys{"4", "1", "3"}));
  setter.join();
}

TEST_P(StoreContract, CountsWithoutLosingAny) {
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.push_back(other([](Store& shared) {
      for (int n = 0; n < 50; ++n) shared.add("n", 1);
    }));
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(store->add("n", 0), 200);
}

TEST_P(StoreContract, OnlyOneWinsACompareSet) {
  std::vector<std::thread> threads;
  std::atomic<int> winners = 0;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.push_back(other([i, &winners](Store& shared) {
      const std::string mine = "thread " + std::to_string(i);
      if (shared.compare_set("leader", "", mine) == mine) ++winners;
    }));
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(winners, 1);
}

TEST_P(StoreContract, Barrier) {
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int i = 0; i < 3; ++i) {
    threads.push_back(other([](Store& shared) { shared.barrier("b", 3); }));
  }
  for (auto& thread : threads) thread.join();
  store->barrier("b", 3);  // passes: the count never decreases
  store->set_timeout(10ms);
  fails(ErrorKind::timeout, [&] { store->barrier("other", 2); });
  store->set_timeout(long_enough);
  store->barrier("other", 2);  // a call that timed out stays counted
}

// The optional calls.
class AppendingStores : public StoreContract {};
INSTANTIATE_TEST_SUITE_P(Stores, AppendingStores,
                         testing::Values(hash, file, tcp, tcp_2_1, prefixed_hash, prefixed_file,
                                         prefixed_tcp),
                         name_of);

TEST_P(AppendingStores, Append) {
  std::thread waiter = other([](Store& shared) { shared.wait(Keys{"k"}); });
  store->append("k", "po");
  waiter.join();
  store->append("k", "");
  store->append("k", "tato");
  EXPECT_EQ(store->get("k"), "potato");
  EXPECT_EQ(store->add("n", 1), 1);
  store->append("n", "2");
  EXPECT_EQ(store->add("n", 1), 13);
}

class ListingStores : public StoreContract {};
INSTANTIATE_TEST_SUITE_P(Stores, ListingStores,
                         testing::Values(hash, file, tcp, prefixed_hash, prefixed_file, prefixed_tcp),
                         name_of);

TEST_P(ListingStores, ListsTheUsersKeys) {
  EXPECT_TRUE(store->list_keys().empty());
  store->multi_set(Keys{"b", "a/c", "gone"}, Keys{"", "", ""});
  store->delete_key("gone");
  EXPECT_EQ(store->list_keys(), (Keys{"a/c", "b"}));
}

class QueueingStores : public StoreContract {};
INSTANTIATE_TEST_SUITE_P(Stores, QueueingStores, testing::Values(hash, tcp, prefixed_hash, prefixed_tcp),
                         name_of);

TEST_P(QueueingStores, TheOldestComesFirst) {
  EXPECT_EQ(store->queue_pop("q", false), std::nullopt);
  EXPECT_EQ(store->queue_len("q"), 0);
  store->queue_push("q", "1");
  store->queue_push("q", "");
  EXPECT_EQ(store->queue_len("q"), 2);
  EXPECT_EQ(store->queue_pop("q", true), "1");
  EXPECT_EQ(store->queue_pop("q", false), "");
  EXPECT_EQ(store->queue_pop("q", false), std::nullopt);
}

TEST_P(QueueingStores, AreNoKeysButCountAsPresent) {
  store->queue_push("q", "1");
  EXPECT_TRUE(store->check(Keys{"q"}));
  store->wait(Keys{"q"}, Duration::zero());
  EXPECT_EQ(store->num_keys(), stores->own_keys());
  EXPECT_FALSE(store->delete_key("q"));
  EXPECT_EQ(store->queue_len("q"), 1);
  store->set("q", "a key of the same name");
  EXPECT_EQ(store->queue_pop("q", true), "1");
  EXPECT_EQ(store->get("q"), "a key of the same name");
}

TEST_P(QueueingStores, APopWaitsForAPush) {
  std::thread pusher = other([](Store& shared) { shared.queue_push("q", "3"); });
  EXPECT_EQ(store->queue_pop("q", true), "3");
  pusher.join();
  store->set_timeout(10ms);
  fails(ErrorKind::timeout, [&] { store->queue_pop("q", true); });
}

TEST_P(QueueingStores, TwoPoppersEachGetAValue) {
  std::atomic<int> got = 0;
  std::vector<std::thread> threads;
  threads.reserve(2);
  for (int i = 0; i < 2; ++i) {
    threads.push_back(other([&got](Store& shared) {
      for (int n = 0; n < 20; ++n) got += std::stoi(shared.queue_pop("q", true).value());
    }));
  }
  for (int n = 0; n < 40; ++n) store->queue_push("q", std::to_string(n));
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(got, 39 * 40 / 2);
}

TEST(FileStore, HasNoQueues) {
  FileStores stores;
  EXPECT_THROW(stores.make()->queue_push("q", ""), StoreError);
}

}  // namespace
}  // namespace dlaunch::store
