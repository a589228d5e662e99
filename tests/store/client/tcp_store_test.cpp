// dlaunch's client and server over real sockets.
#include "store/client/tcp_store.h"

#include <gtest/gtest.h>

#include <atomic>

#include "store/base/random.h"
#include "store/protocol/key_proof.h"
#include "tests/store/client/reserved_port.h"
#include "tests/store/server/server_thread.h"

namespace dlaunch::store {
namespace {

using namespace std::chrono_literals;
using test::ReservedPort;
using test::ServerThread;

const std::vector<std::string> one_key = {"k"};

TEST(TcpStore, KeepsWhatItIsGiven) {
  ServerThread server;
  TcpStore store(server.client_options());
  store.set("k", "v");
  EXPECT_EQ(store.get("k"), "v");
  store.set("k", "");
  EXPECT_EQ(store.get("k"), "");
  store.set("k", std::string("\0\xff", 2));
  EXPECT_EQ(store.get("k"), std::string("\0\xff", 2));
  store.set("", "empty key");
  EXPECT_EQ(store.get(""), "empty key");
  EXPECT_EQ(store.num_keys(), 2);
  EXPECT_TRUE(store.delete_key("k"));
  EXPECT_FALSE(store.delete_key("k"));
  EXPECT_EQ(store.num_keys(), 1);
}

TEST(TcpStore, AddsAndCompares) {
  ServerThread server;
  TcpStore store(server.client_options());
  EXPECT_EQ(store.add("n", 5), 5);
  EXPECT_EQ(store.add("n", -7), -2);
  EXPECT_EQ(store.get("n"), "-2");
  EXPECT_EQ(store.compare_set("c", "", "a"), "a");
  EXPECT_EQ(store.compare_set("c", "wrong", "b"), "a");
  EXPECT_EQ(store.compare_set("c", "a", "b"), "b");
  EXPECT_EQ(store.compare_set("none", "expected", "b"), "expected");
  EXPECT_FALSE(store.check(std::vector<std::string>{"c", "none"}));
  EXPECT_TRUE(store.check(std::vector<std::string>{"c", "n"}));
  EXPECT_TRUE(store.check({}));
}

TEST(TcpStore, DoesManyAtOnce) {
  ServerThread server;
  TcpStore store(server.client_options());
  const std::vector<std::string> keys = {"a", "b", "c"};
  const std::vector<std::string> values = {"1", "", "3"};
  store.multi_set(keys, values);
  EXPECT_EQ(store.multi_get(keys), values);
  EXPECT_TRUE(store.multi_get({}).empty());
  store.append("a", "23");
  EXPECT_EQ(store.get("a"), "123");
  EXPECT_EQ(store.list_keys(), keys);
}

TEST(TcpStore, CountsItselfAsAWorker) {
  ServerThread server;
  auto options = server.client_options();
  options.world_size = 2;
  TcpStore first(options);
  TcpStore second(options);
  EXPECT_EQ(first.num_keys(), 1);  // "init/"
  EXPECT_TRUE(first.list_keys().empty());
}

TEST(TcpStore, WaitsUntilAnotherSets) {
  ServerThread server;
  TcpStore waiter(server.client_options());
  TcpStore setter(server.client_options());
  std::thread thread([&] { EXPECT_EQ(waiter.get("k"), "late"); });
  server.until([](const StoreStats& stats) { return stats.waiting == 1; });
  setter.set("k", "late");
  thread.join();
}

TEST(TcpStore, TimeoutNamesTheKey) {
  ServerThread server;
  TcpStore store(server.client_options());
  try {
    store.wait(std::vector<std::string>{"x", "y"}, 20ms);
    FAIL() << "the keys do not exist";
  } catch (const StoreError& error) {
    EXPECT_EQ(error.error().kind, ErrorKind::timeout);
    EXPECT_EQ(std::string(error.what()),
              "store " + to_string(server.address()) + ": waited 20 ms for keys 'x', 'y'");
  }
  store.set("x", "usable");
  EXPECT_EQ(store.get("x"), "usable");
  EXPECT_EQ(server.stats().waiting, 0U);
}

TEST(TcpStore, WithATimeoutOfZeroOnlyAsks) {
  ServerThread server;
  TcpStore store(server.client_options());
  EXPECT_THROW(store.wait(one_key, Duration::zero()), StoreError);
  store.set("k", "v");
  store.wait(one_key, Duration::zero());
  store.set_timeout(Duration::zero());
  EXPECT_EQ(store.get("k"), "v");
  EXPECT_THROW(store.get("other"), StoreError);
  EXPECT_EQ(store.add("n", 1), 1);
}

TEST(TcpStore, FailsAtOnceWhenTheServerGoes) {
  auto server = std::make_unique<ServerThread>();
  const std::string address = to_string(server->address());
  TcpStore store(server->client_options());
  std::thread thread([&] {
    try {
      store.get("never");
      ADD_FAILURE() << "there is no such key";
    } catch (const StoreError& error) {
      EXPECT_EQ(error.error().kind, ErrorKind::network);
      EXPECT_EQ(std::string(error.what()),
                "store " + address + ": lost during get of key 'never': closed by the server");
    }
  });
  server->until([](const StoreStats& stats) { return stats.waiting == 1; });
  server.reset();
  thread.join();
  EXPECT_THROW(store.num_keys(), StoreError);  // again, without an attempt
}

TEST(TcpStore, ANewRoundEndsIt) {
  ServerThread server;
  TcpStore old_one(server.client_options());
  old_one.set("k", "old");
  EXPECT_EQ(old_one.get("k"), "old");
  server.on_loop([](StoreServer& store) { store.new_round(); });
  EXPECT_THROW(old_one.get("k"), StoreError);
  TcpStore new_one(server.client_options());
  EXPECT_EQ(new_one.num_keys(), 0);
}

ServerOptions with_key(const std::string& secret) {
  ServerOptions options;
  options.key = {store_key(secret), [] { return random_bytes(key_nonce_size); }, {}};
  return options;
}

std::string why_not(TcpStoreOptions options, ErrorKind kind) {
  options.timeout = kind == ErrorKind::timeout ? Duration(200ms) : Duration(60s);
  try {
    const TcpStore store(options);
    return "connected";
  } catch (const StoreError& error) {
    EXPECT_EQ(error.error().kind, kind) << error.what();
    return error.error().why;
  }
}

TEST(TcpStore, ProvesTheKeyOfAStore) {
  ServerThread server(with_key("s3cret"));
  TcpStoreOptions options = server.client_options();
  options.key = store_key("s3cret");
  TcpStore store(options);
  store.set("k", "v");
  EXPECT_EQ(store.get("k"), "v");
  options.key = store_key("other");
  EXPECT_EQ(why_not(options, ErrorKind::refused), "it has another secret");
}

TEST(TcpStore, DoesNotTrustAStoreThatCannotProveTheKey) {
  ServerThread server;
  TcpStoreOptions options = server.client_options();
  options.key = store_key("s3cret");
  const std::string why = why_not(options, ErrorKind::timeout);
  EXPECT_NE(why.find("while the secret was proved (its store may have none)"), std::string::npos) << why;
}

TEST(TcpStore, ConnectErrorHasItsReason) {
  const ReservedPort port;
  TcpStoreOptions options;
  options.server = port.address();
  options.timeout = 50ms;
  try {
    const TcpStore store(options);
    FAIL() << "nobody is there";
  } catch (const StoreError& error) {
    EXPECT_EQ(error.error().kind, ErrorKind::timeout);
    EXPECT_NE(std::string(error.what())
                  .find("cannot connect to store " + to_string(options.server) + ": connection refused"),
              std::string::npos)
        << error.what();
  }
}

TEST(TcpStore, WaitsForAServerThatIsLate) {
  const ReservedPort port;
  TcpStoreOptions options;
  options.server = port.address();
  std::atomic<bool> done = false;
  std::thread client([&] {
    TcpStore store(options);
    store.set("k", "v");
    EXPECT_EQ(store.get("k"), "v");
    done = true;
  });
  // Whichever is first, the client reaches the server in the end.
  ServerThread server({}, "127.0.0.1", port.address().port);
  client.join();
  EXPECT_TRUE(done);
}

TEST(TcpStore, AValueThatIsNoNumberIsAnErrorOfThatCallOnly) {
  ServerThread server;
  TcpStore store(server.client_options());
  TcpStore other(server.client_options());
  store.set("k", "text");
  for (int i = 0; i < 2; ++i) {
    try {
      store.add("k", 1);
      FAIL() << "added to a text";
    } catch (const StoreError& e) {
      EXPECT_EQ(e.error().kind, ErrorKind::invalid);
      EXPECT_NE(std::string(e.what()).find("cannot add to key 'k': its value is not a number"),
                std::string::npos)
          << e.what();
    }
    EXPECT_EQ(store.get("k"), "text");
    EXPECT_EQ(store.add("n", 3), 3 * (i + 1));
  }
  EXPECT_EQ(other.get("k"), "text");
  EXPECT_TRUE(server.reports().empty());
}

TEST(TcpStore, Queues) {
  ServerThread server;
  TcpStore store(server.client_options());
  EXPECT_EQ(store.queue_pop("q", false), std::nullopt);
  store.queue_push("q", "a");
  store.queue_push("q", "");
  EXPECT_EQ(store.queue_len("q"), 2);
  EXPECT_TRUE(store.check(std::vector<std::string>{"q"}));
  EXPECT_EQ(store.queue_pop("q", true), "a");
  EXPECT_EQ(store.queue_pop("q", true), "");
  store.set_timeout(20ms);
  EXPECT_THROW(store.queue_pop("q", true), StoreError);
  store.set_timeout(30s);  // for a busy machine
  EXPECT_EQ(store.queue_len("q"), 0);
}

TEST(TcpStore, TwoPoppersOfOneQueueEachGetAValue) {
  ServerThread server;
  std::atomic<int> got = 0;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      TcpStore store(server.client_options());
      for (int round = 0; round < 25; ++round) {
        if (store.queue_pop("q", true)) ++got;
      }
    });
  }
  TcpStore store(server.client_options());
  for (int i = 0; i < 100; ++i) store.queue_push("q", std::to_string(i));
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(got, 100);
}

TEST(TcpStore, Barrier) {
  ServerThread server;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { TcpStore(server.client_options()).barrier("b", 4); });
  }
  for (auto& thread : threads) thread.join();
  TcpStore store(server.client_options());
  store.barrier("b", 4);  // passes: the count never decreases
  store.set_timeout(20ms);
  EXPECT_THROW(store.barrier("other", 2), StoreError);
  store.set_timeout(30s);              // for a busy machine
  EXPECT_EQ(store.get("other"), "1");  // a cancelled call stays counted
}

TEST(TcpStore, SeveralThreadsTakeTurns) {
  ServerThread server;
  TcpStore store(server.client_options());
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&store] {
      for (int n = 0; n < 100; ++n) store.add("n", 1);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(store.add("n", 0), 400);
}

TEST(TcpStore, LargeValuesPassWhole) {
  ServerThread server;
  TcpStore store(server.client_options());
  std::string value(24 << 20, '\0');
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 2654435761U >> 24U);
  store.set("large", value);
  EXPECT_TRUE(store.get("large") == value);
}

TEST(TcpStore, AWaitForTenThousandKeys) {
  ServerThread server;
  TcpStore store(server.client_options());
  std::vector<std::string> keys;
  keys.reserve(10'000);
  for (int i = 0; i < 10'000; ++i) keys.push_back("some/longer/prefix/" + std::to_string(i));
  std::thread thread([&] { TcpStore(server.client_options()).wait(keys, 60s); });
  server.until([](const StoreStats& stats) { return stats.waiting == 1; });
  for (const std::string& key : keys) store.set(key, "");
  thread.join();
}

// The dialects of old servers, which dlaunch's server understands, too.
class OldDialects : public testing::TestWithParam<Dialect> {};

TEST_P(OldDialects, ServeTheSameStore) {
  ServerThread server;
  TcpStore old_one(server.client_options(GetParam()));
  TcpStore new_one(server.client_options());
  old_one.set("k", "v");
  EXPECT_EQ(old_one.num_keys(), 1);  // answered, so the set is done too
  EXPECT_EQ(new_one.get("k"), "v");
  EXPECT_EQ(old_one.add("n", 3), 3);
  EXPECT_EQ(old_one.compare_set("k", "v", "w"), "w");
  EXPECT_EQ(old_one.multi_get(std::vector<std::string>{"k", "n"}), (std::vector<std::string>{"w", "3"}));
  EXPECT_TRUE(old_one.delete_key("k"));
  EXPECT_FALSE(old_one.delete_key("k"));
  EXPECT_THROW(old_one.wait(one_key, 20ms), StoreError);
  EXPECT_EQ(old_one.num_keys(), 1);
  new_one.set("k", "late");  // no client waits for it any more, so none is woken
  EXPECT_EQ(new_one.num_keys(), 2);
  EXPECT_EQ(old_one.num_keys(), 2);
  EXPECT_THROW(old_one.queue_len("q"), StoreError);
  EXPECT_EQ(old_one.get("k"), "late");
}

INSTANTIATE_TEST_SUITE_P(TcpStore, OldDialects, testing::Values(Dialect::v1_13, Dialect::v2_1),
                         [](const auto& one) {
                           return std::string(one.param == Dialect::v1_13 ? "v1_13" : "v2_1");
                         });

TEST(TcpStore, ReachesAServerOnAllInterfacesByBothFamilies) {
  ServerThread server({}, "*");
  std::vector<std::string> hosts = {"127.0.0.1", "localhost"};
  if (server.addresses()[0].host == "::") hosts.emplace_back("::1");
  for (const std::string& host : hosts) {
    auto options = server.client_options();
    options.server.host = host;
    EXPECT_EQ(TcpStore(options).num_keys(), 0) << host;
  }
}

// Invalid clients beside one at work: whatever they send, the latter is served, and they cost a bounded
// amount of memory.
TEST(TcpStore, InvalidClientsDoNotDisturb) {
  ServerThread server;
  const TimePoint deadline = deadline_after(steady_now(), 60s);
  std::vector<std::unique_ptr<BlockingSocket>> invalid_clients;
  const auto invalid_client = [&](std::string_view bytes) {
    auto& socket = *invalid_clients.emplace_back(std::make_unique<BlockingSocket>());
    ASSERT_TRUE(socket.connect(server.address(), deadline));
    ASSERT_TRUE(socket.send(as_byte_span(bytes), deadline));
  };
  const std::string hello("\x00\xce\xf7\x85\x3c", 5);
  const std::string longest("\xff\xff\xff\xff\xff\xff\xff\x7f", 8);
  invalid_client("");                                                // never sends
  invalid_client("GET / HTTP/1.1\r\n");                              // half a request
  invalid_client("\x16\x03\x01");                                    // TLS
  invalid_client(std::string("\0", 1));                              // one byte of a greeting
  invalid_client("\xd1 an agent");                                   // no agents here
  invalid_client(hello + "\x01" + longest);                          // a length of 2^63
  invalid_client(hello + "\x06" + longest);                          // as many keys
  invalid_client(hello + std::string("\x01\x03\0\0\0\0\0\0\0", 9));  // stops in the middle
  TcpStore store(server.client_options());
  store.set("k", "v");
  EXPECT_EQ(store.get("k"), "v");
  server.until([](const StoreStats& stats) { return stats.rejected == 2; });
  EXPECT_LT(server.stats().bytes, 1000U);
}

// All clients that wait for one key get its value as soon as it exists.
TEST(TcpStore, AHerdThatWaitsForOneKeyIsServed) {
  constexpr int many = 300;
  ServerThread server;
  const TimePoint deadline = deadline_after(steady_now(), 60s);
  const std::string wait("\x05\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0/k", 19);  // in 1.13's dialect
  const std::string get("\x02\x02\0\0\0\0\0\0\0/k", 11);
  std::vector<std::unique_ptr<BlockingSocket>> clients;
  for (int i = 0; i < many; ++i) {
    clients.push_back(std::make_unique<BlockingSocket>());
    ASSERT_TRUE(clients.back()->connect(server.address(), deadline));
    ASSERT_TRUE(clients.back()->send(as_byte_span(wait), deadline));
  }
  server.until([](const StoreStats& stats) { return stats.waiting == many; });
  const std::string value(1000, 'v');
  TcpStore store(server.client_options());
  store.set("k", value);
  for (auto& client : clients) {
    char stop = 1;
    ASSERT_TRUE(client->receive(&stop, 1, deadline));
    EXPECT_EQ(stop, 0);
    ASSERT_TRUE(client->send(as_byte_span(get), deadline));
  }
  for (auto& client : clients) {
    std::string answer(sizeof(std::uint64_t) + value.size(), '\0');
    ASSERT_TRUE(client->receive(answer.data(), answer.size(), deadline));
    EXPECT_EQ(answer.substr(sizeof(std::uint64_t)), value);
  }
}

// Many clients that connect in the same moment are all accepted.
TEST(TcpStore, AStormOfClientsIsServed) {
  constexpr int many = 400;
  ServerThread server;
  std::vector<std::unique_ptr<BlockingSocket>> clients;
  const TimePoint deadline = deadline_after(steady_now(), 60s);
  // "add 1 to the key init/" in 1.13's dialect, which needs no greeting.
  const std::string add("\x03\x05\0\0\0\0\0\0\0init/\x01\0\0\0\0\0\0\0", 22);
  for (int i = 0; i < many; ++i) {
    clients.push_back(std::make_unique<BlockingSocket>());
    ASSERT_TRUE(clients.back()->connect(server.address(), deadline));
    ASSERT_TRUE(clients.back()->send(as_byte_span(add), deadline));
  }
  std::int64_t sum = 0;
  for (auto& client : clients) {
    std::int64_t number = 0;
    ASSERT_TRUE(client->receive(reinterpret_cast<char*>(&number), sizeof number, deadline));
    sum += number;
  }
  EXPECT_EQ(sum, many * (many + 1) / 2);
  EXPECT_EQ(server.stats().connections, static_cast<std::uint64_t>(many));
}

}  // namespace
}  // namespace dlaunch::store
