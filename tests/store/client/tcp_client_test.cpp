// dlaunch's client, byte by byte, against other servers: PyTorch's of each kind, and faulty ones.
#include <gtest/gtest.h>

#include "store/client/tcp_store.h"
#include "tests/store/server/fake_server.h"

namespace dlaunch::store {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using test::FakeServer;
using Visit = FakeServer::Visit;

const std::string hello = "\0\xce\xf7\x85\x3c"s;

// The answer to a greeting by PING: its number.
void greet(const Visit& visit) {
  const std::string greeting = visit.receive(10);
  EXPECT_EQ(greeting.substr(0, 6), hello + "\x0d");
  visit.send(greeting.substr(6));
}

TcpStoreOptions client_of(const FakeServer& server, Dialect dialect = Dialect::v2_2) {
  TcpStoreOptions options;
  options.server = server.address();
  options.timeout = 60s;
  options.dialect = dialect;
  return options;
}

std::string error_of(const std::function<void()>& call, ErrorKind kind) {
  try {
    call();
    return "none";
  } catch (const StoreError& error) {
    EXPECT_EQ(error.error().kind, kind) << error.what();
    return error.what();
  }
}

// PyTorch's libuv server closes a connection whose greeting does not arrive whole.
TEST(TcpClient, GreetsInOneWrite) {
  const FakeServer server({[](const Visit& visit) {
    const std::string first = visit.receive_some();
    EXPECT_EQ(first.size(), 10U);
    EXPECT_EQ(first.substr(0, 5), hello);
    visit.send(first.substr(6));
  }});
  const TcpStore store(client_of(server));
}

// PyTorch 2.2 to 2.4 do not know PING.
TEST(TcpClient, GreetsServersWithoutAPing) {
  const FakeServer server({[](const Visit& visit) { (void)visit.receive(10); },
                           [](const Visit& visit) {
                             const std::string check = hello + "\5\1\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0init/"s;
                             EXPECT_EQ(visit.receive(check.size()), check);
                             visit.send("\1");
                             EXPECT_EQ(visit.receive(1), "\7");
                             visit.send("\3\0\0\0\0\0\0\0"s);
                           }});
  EXPECT_EQ(TcpStore(client_of(server)).num_keys(), 3);
}

TEST(TcpClient, AGreetingAnsweredWronglyIsTriedAgain) {
  const FakeServer server({[](const Visit& visit) {
                             (void)visit.receive(10);
                             visit.send("nope");
                           },
                           [](const Visit& visit) {
                             (void)visit.receive_some();
                             visit.send(std::string(1, '\0'));
                           }});
  const TcpStore store(client_of(server));
}

// Old servers misread a greeting: the client sends nothing before the first call.
TEST(TcpClient, DoesNotGreetOldServers) {
  for (const Dialect dialect : {Dialect::v1_13, Dialect::v2_1}) {
    const FakeServer server({[](const Visit& visit) {
      EXPECT_EQ(visit.receive_some(), "\6");
      visit.send("\1\0\0\0\0\0\0\0"s);
    }});
    EXPECT_EQ(TcpStore(client_of(server, dialect)).num_keys(), 1);
  }
}

// The key came just when the wait timed out: the wait's answer and the cancellation's both arrive.
TEST(TcpClient, ACancellationMayCrossTheAnswer) {
  const FakeServer server({[](const Visit& visit) {
    greet(visit);
    const std::string wait = "\6\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/k"s;
    EXPECT_EQ(visit.receive(wait.size()), wait);
    EXPECT_EQ(visit.receive(1), "\x0c");
    visit.send("\0\1"s);
    EXPECT_EQ(visit.receive(1), "\7");
    visit.send("\5\0\0\0\0\0\0\0"s);
  }});
  TcpStore store(client_of(server));
  EXPECT_NE(error_of([&] { store.wait(std::vector<std::string>{"k"}, 5ms); }, ErrorKind::timeout), "none");
  EXPECT_EQ(store.num_keys(), 5);
}

// 1.13 has no cancelling: a connection is unusable after a wait that timed out.
TEST(TcpClient, ComesAgainAfterAWaitThatCannotBeCancelled) {
  const FakeServer server({[](const Visit& visit) {
                             const std::string wait = "\5\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/k"s;
                             EXPECT_EQ(visit.receive(wait.size()), wait);
                             EXPECT_EQ(visit.receive_some(), "");
                           },
                           [](const Visit& visit) {
                             EXPECT_EQ(visit.receive(1), "\6");
                             visit.send("\5\0\0\0\0\0\0\0"s);
                           }});
  TcpStore store(client_of(server, Dialect::v1_13));
  EXPECT_NE(error_of([&] { store.wait(std::vector<std::string>{"k"}, 5ms); }, ErrorKind::timeout), "none");
  EXPECT_EQ(store.num_keys(), 5);
}

// The client does not search for a lost server again, even if another listens at its address.
TEST(TcpClient, NeverJoinsASecondServer) {
  const FakeServer server(
      {[](const Visit& visit) { greet(visit); }, [](const Visit& visit) { greet(visit); }});
  TcpStore store(client_of(server));
  EXPECT_NE(error_of([&] { store.num_keys(); }, ErrorKind::network), "none");
  const std::string first = error_of([&] { store.num_keys(); }, ErrorKind::network);
  EXPECT_EQ(first.find("store " + to_string(server.address()) + ": lost during num_keys: "), 0U) << first;
  EXPECT_EQ(error_of([&] { store.get("k"); }, ErrorKind::network), first);
  const TcpStore another(client_of(server));  // a new object may connect
}

TEST(TcpClient, DoesNotBelieveLengths) {
  const FakeServer server({[](const Visit& visit) {
    greet(visit);
    (void)visit.receive(1 + 8 + 8 + 2);  // WAIT
    visit.send(std::string(1, '\0'));
    (void)visit.receive(1 + 8 + 2);  // GET
    visit.send("\xff\xff\xff\xff\xff\xff\xff\x7fx");
  }});
  TcpStore store(client_of(server));
  EXPECT_EQ(error_of([&] { store.get("k"); }, ErrorKind::network),
            "store " + to_string(server.address()) + ": lost during get of key 'k': closed by the server");
}

// dlaunch's server identifies itself in its answer to the greeting: then the value of an existing key comes
// in one exchange, and the answers about a missing one are ignored.
TEST(TcpClient, AsksOursForAllAtOnce) {
  const std::string check = "\5\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/k"s;
  const std::string get = "\3\2\0\0\0\0\0\0\0/k"s;
  const std::string wait = "\6\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/k"s;
  const FakeServer server({[&](const Visit& visit) {
    std::string pong = visit.receive(10).substr(6);
    ++pong[0];
    visit.send(pong);
    EXPECT_EQ(visit.receive_some(), check + get);
    visit.send("\0\1\0\0\0\0\0\0\0v"s);
    EXPECT_EQ(visit.receive_some(), check + get);
    visit.send("\1\0\0\0\0\0\0\0\0"s);
    EXPECT_EQ(visit.receive_some(), wait);
    visit.send("\0"s);
    EXPECT_EQ(visit.receive_some(), get);
    visit.send("\1\0\0\0\0\0\0\0w"s);
  }});
  TcpStore store(client_of(server));
  EXPECT_EQ(store.get("k"), "v");
  EXPECT_EQ(store.get("k"), "w");
}

// An empty value's answer ends with its length: the client must not wait for more.
TEST(TcpClient, AnEmptyValueIsWhole) {
  const FakeServer server({[](const Visit& visit) {
    greet(visit);
    (void)visit.receive(1 + 8 + 8 + 2);
    visit.send(std::string(1, '\0'));
    (void)visit.receive(1 + 8 + 2);
    visit.send(std::string(8, '\0'));
    EXPECT_EQ(visit.receive_some(), "");  // it has its answer, and closes
  }});
  EXPECT_EQ(TcpStore(client_of(server)).get("k"), "");
}

}  // namespace
}  // namespace dlaunch::store
