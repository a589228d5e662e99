// The server as its peers see it, over a network without wires: which requests it answers, and how.

#include "store/server/server.h"

#include <gtest/gtest.h>

#include "tests/store/server/server_fixture.h"

namespace dlaunch::store {
namespace {

using namespace std::chrono_literals;
using namespace test;

TEST_F(ServerTest, AnswersARequestWithOneAnswer) {
  const ConnId a = client();
  EXPECT_EQ(ask(a, request(RequestKind::set, "/k", "v")), "");
  EXPECT_EQ(ask(a, request(RequestKind::get, "/k")), text("v"));
}

TEST_F(ServerTest, AnswersPipelinedRequestsInOrder) {
  const ConnId a = client();
  network.give(a, encoded(request(RequestKind::set, "/p", "1")) +
                      encoded(numbered(RequestKind::add, "/p", 2)) + encoded(request(RequestKind::num_keys)));
  EXPECT_EQ(network.take(a), i64(3) + i64(1));
}

TEST_F(ServerTest, ServesAllGenerationsFromOneTable) {
  const ConnId newest = client();
  const ConnId older = network.arrive();
  const ConnId oldest = network.arrive();
  ask(newest, request(RequestKind::set, "/k", "v"));
  EXPECT_EQ(ask(older, request(RequestKind::get, "/k"), Dialect::v2_1), text("v"));
  EXPECT_EQ(ask(oldest, listing(RequestKind::wait, {"/late"}), Dialect::v1_13), "");
  EXPECT_EQ(ask(older, listing(RequestKind::multi_set, {"/late"}, {"1"}), Dialect::v2_1), "");
  EXPECT_EQ(network.take(oldest), byte(answer_stop_waiting));
}

TEST_F(ServerTest, DeletesFor113AfterAMomentOfSilence) {
  const ConnId old_one = network.arrive();
  ask(old_one, request(RequestKind::set, "/k", "v"), Dialect::v1_13);
  EXPECT_EQ(ask(old_one, request(RequestKind::delete_key, "/k"), Dialect::v1_13), "");
  network.pass(1s);
  EXPECT_EQ(network.take(old_one), i64(1));
  EXPECT_EQ(ask(old_one, request(RequestKind::delete_key, "/k"), Dialect::v1_13), i64(0));  // now it is known
}

TEST_F(ServerTest, AppendsFor21WhenMoreFollows) {
  const ConnId old_one = network.arrive();
  const std::string bytes = encoded(request(RequestKind::append, "/k", "v"), Dialect::v2_1);
  const std::size_t others = network.timers();
  network.give(old_one, bytes.substr(0, 1 + 8 + 2));
  EXPECT_EQ(network.timers(), others + 1);
  network.give(old_one, bytes.substr(1 + 8 + 2));
  EXPECT_EQ(network.timers(), others);
  network.pass(1s);
  EXPECT_EQ(ask(old_one, request(RequestKind::get, "/k"), Dialect::v2_1), text("v"));
}

TEST_F(ServerTest, NotesFor113sWatchers) {
  ServerOptions options;
  options.old_clients = OldClients::v1_13;
  make(options);
  const ConnId watcher = network.arrive();
  EXPECT_EQ(ask(watcher, request(RequestKind::watch_key, "/k"), Dialect::v1_13), byte(answer_watching));
  const ConnId a = client();
  ask(a, request(RequestKind::set, "/k", "v"));
  EXPECT_EQ(network.take(watcher), byte(1) + text("/k") + text("") + text("v"));

  network.stop_reading(watcher);
  const std::string large(48 << 20, 'x');
  ask(a, request(RequestKind::set, "/k", large));
  EXPECT_FALSE(network.closed(watcher));
  ask(a, request(RequestKind::set, "/k", large));
  EXPECT_TRUE(network.closed(watcher));
  ask(a, request(RequestKind::set, "/k", "v"));
}

TEST_F(ServerTest, ClosingIsItsOnlyRefusal) {
  const ConnId a = client();
  ask(a, request(RequestKind::set, "/k", "text"));
  EXPECT_EQ(ask(a, numbered(RequestKind::add, "/k", 1)), "");
  EXPECT_TRUE(network.closed(a));
  EXPECT_EQ(server->stats().connections, 0U);
  EXPECT_EQ(server->stats().rejected, 1U);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0], "rejected 10.0.0.9:40000: ADD or BARRIER on a value that is not a number");

  const ConnId b = client();
  network.give(b, "\x63");
  EXPECT_TRUE(network.closed(b));
  const ConnId c = client();
  network.give(c, greeting);  // a second time
  EXPECT_TRUE(network.closed(c));
}

TEST_F(ServerTest, AnswersWhatCameBeforeTheMistake) {
  const ConnId a = client();
  network.give(a, encoded(request(RequestKind::num_keys)) + "\x63" + encoded(request(RequestKind::num_keys)));
  EXPECT_EQ(network.take(a), i64(0));
  EXPECT_TRUE(network.closed(a));
}

TEST_F(ServerTest, ClosedConnectionIsForgotten) {
  const ConnId a = client();
  const ConnId b = client();
  ask(a, listing(RequestKind::wait, {"/k"}));
  EXPECT_EQ(server->stats().waiting, 1U);
  network.leave(a);
  EXPECT_EQ(server->stats().waiting, 0U);
  EXPECT_EQ(server->stats().connections, 1U);
  ask(b, request(RequestKind::set, "/k", "v"));
  EXPECT_EQ(network.take(a), "");
}

TEST_F(ServerTest, AQueuesValueGoesToTheNextWhenTheFirstLeaves) {
  const ConnId a = client();
  const ConnId b = client();
  const ConnId c = client();
  ask(a, listing(RequestKind::wait, {"/q"}));
  ask(b, listing(RequestKind::wait, {"/q"}));
  ask(c, request(RequestKind::queue_push, "/q", "v"));
  network.leave(a);
  EXPECT_EQ(network.take(b), byte(answer_stop_waiting));
}

// A peer that sends requests and does not read waits until it reads; the others are served.
TEST_F(ServerTest, SlowReadersWait) {
  const ConnId a = client();
  const ConnId b = client();
  ask(b, request(RequestKind::set, "/k", std::string(Network::high_water, 'x')));
  network.stop_reading(a);
  const std::string get = encoded(request(RequestKind::get, "/k"));
  network.give(a, get + get + get);
  EXPECT_TRUE(network.paused(a));
  EXPECT_EQ(network.take(a).size(), Network::high_water + 8);
  EXPECT_EQ(ask(b, request(RequestKind::num_keys)), i64(1));

  network.read_again(a);
  EXPECT_FALSE(network.paused(a));
  EXPECT_EQ(network.take(a).size(), 2 * (Network::high_water + 8));
}

TEST_F(ServerTest, AnswersShareTheStoredValue) {
  constexpr std::size_t size = 16 << 20;
  ask(client(), request(RequestKind::set, "/k", std::string(size, 'x')));
  for (int i = 0; i < 64; ++i) {
    const ConnId reader = client();
    network.stop_reading(reader);
    EXPECT_EQ(ask(reader, request(RequestKind::get, "/k")).size(), size + 8);
  }
  EXPECT_LT(server->stats().bytes, size + (1 << 20));
}

TEST_F(ServerTest, TheConnectionWithTheMostUnreadMakesRoom) {
  ServerOptions options;
  options.limits.total_bytes = 1'000'000;
  make(options);
  const ConnId a = client();
  for (char c = 'a'; c < 'f'; ++c) ask(a, request(RequestKind::set, std::string(40'000, c), "v"));
  const std::size_t stored = server->stats().bytes;

  const ConnId much = network.arrive({"10.0.0.7", 1});
  const ConnId less = network.arrive({"10.0.0.8", 1});
  const ConnId little = network.arrive({"10.0.0.9", 1});
  for (const ConnId conn : {much, less, little}) {
    network.stop_reading(conn);
    network.give(conn, greeting);
  }
  ask(little, request(RequestKind::num_keys));
  ask(less, request(RequestKind::list_keys));
  ask(much, request(RequestKind::list_keys));
  ask(much, request(RequestKind::list_keys));
  EXPECT_GE(server->stats().unread_bytes, 600'000U);
  EXPECT_EQ(server->stats().bytes, stored + server->stats().unread_bytes);
  EXPECT_TRUE(reports.empty());

  ask(less, request(RequestKind::list_keys));
  EXPECT_TRUE(network.closed(much));
  EXPECT_FALSE(network.closed(less));
  EXPECT_EQ(reports, std::vector<std::string>{
                         "rejected 10.0.0.7:1: it does not read its answers, and the store is full"});
  EXPECT_LE(server->stats().bytes, options.limits.total_bytes);

  const std::string half = '\x01' + text("/k") + i64(900'000) + std::string(700'000, 'x');
  network.give(a, half);
  EXPECT_TRUE(network.closed(less));
  EXPECT_FALSE(network.closed(little)) << "to end it makes no room";
  EXPECT_FALSE(network.closed(a));
  network.give(client(), half);
  EXPECT_EQ(reports.back(), "rejected 10.0.0.9:40000: the store is full");
}

TEST_F(ServerTest, AnOldValueThatIsOnlyInAnswersMakesRoom) {
  ServerOptions options;
  options.limits.total_bytes = 1'000'000;
  make(options);
  const ConnId a = client();
  ask(a, request(RequestKind::set, "/other", std::string(300'000, 'o')));
  std::vector<ConnId> readers;
  for (const char c : {'x', 'y', 'z'}) {
    ask(a, request(RequestKind::set, "/k", std::string(200'000, c)));
    readers.push_back(client());
    network.stop_reading(readers.back());
    ask(readers.back(), request(RequestKind::get, "/k"));
  }
  readers.push_back(client());
  network.stop_reading(readers.back());
  ask(readers.back(), request(RequestKind::get, "/other"));
  EXPECT_GE(server->stats().bytes, 900'000U);
  network.give(a, '\x01' + text("/k") + i64(200'000) + std::string(100'000, 'x'));
  EXPECT_TRUE(network.closed(readers[0]) || network.closed(readers[1]));
  EXPECT_FALSE(network.closed(readers[2])) << "what it reads is stored";
  EXPECT_FALSE(network.closed(readers[3])) << "what it reads is stored";
  EXPECT_FALSE(network.closed(a));
}

TEST_F(ServerTest, ClientThatDoesNotReadIsDisconnected) {
  ServerOptions options;
  options.limits.unread_time = 100s;
  make(options);
  ask(client(), request(RequestKind::set, "/k", std::string(100'000, 'x')));
  const ConnId stuck = network.arrive({"10.0.0.7", 1});
  const ConnId slow = network.arrive({"10.0.0.8", 1});
  for (const ConnId conn : {stuck, slow}) {
    network.stop_reading(conn);
    network.give(conn, greeting + encoded(request(RequestKind::get, "/k")));
  }
  for (int i = 0; i < 9; ++i) {
    network.pass(10s);
    network.take_some(slow, 100);
  }
  EXPECT_FALSE(network.closed(stuck));
  for (int i = 0; i < 3; ++i) network.pass(10s);
  EXPECT_TRUE(network.closed(stuck));
  EXPECT_FALSE(network.closed(slow));
  EXPECT_EQ(reports, std::vector<std::string>{"rejected 10.0.0.7:1: it does not read its answers"});
  network.read_again(slow);
  network.pass(10s);
  EXPECT_EQ(network.timers(), 0U) << "nobody has anything to read";
}

TEST_F(ServerTest, WithoutMemoryForAnAnswerItsConnectionEnds) {
  const ConnId waiting = client();
  const ConnId a = client();
  const ConnId other = client();
  ask(waiting, listing(RequestKind::wait, {"/k"}));
  network.fail_sends(1);
  ask(a, request(RequestKind::set, "/k", "v"));
  EXPECT_TRUE(network.closed(waiting)) << "it would wait for ever";
  EXPECT_FALSE(network.closed(a));
  network.fail_sends(1);
  ask(a, request(RequestKind::get, "/k"));
  EXPECT_TRUE(network.closed(a)) << "half an answer is none";
  EXPECT_EQ(ask(other, request(RequestKind::get, "/k")), text("v"));
}

TEST_F(ServerTest, BytesOfHalfRequestsAreCounted) {
  ServerOptions options;
  options.limits.total_bytes = 10'000;
  make(options);
  const ConnId a = client();
  const ConnId b = client();
  const std::string half = '\x01' + text("/k") + i64(9'000) + std::string(6'000, 'x');
  network.give(a, half);
  EXPECT_GE(server->stats().bytes, 6'000U);
  network.give(b, half);
  EXPECT_FALSE(network.closed(a));
  EXPECT_TRUE(network.closed(b));
  network.leave(a);
  EXPECT_EQ(server->stats().bytes, 0U);
}

TEST_F(ServerTest, ANewRoundBeginsEmpty) {
  const ConnId a = client();
  const ConnId waiting = client();
  const ConnId silent = network.arrive();
  ask(a, request(RequestKind::set, "/k", "old"));
  ask(waiting, listing(RequestKind::wait, {"/other"}));
  server->new_round();
  EXPECT_TRUE(network.closed(a));
  EXPECT_TRUE(network.closed(waiting));
  EXPECT_FALSE(network.closed(silent));  // closing it would cost a 1.13 worker a core
  EXPECT_EQ(server->stats().keys, 0U);
  EXPECT_EQ(server->stats().waiting, 0U);

  network.give(silent, greeting);  // a late greeting of the old round
  EXPECT_TRUE(network.closed(silent));
  const ConnId b = client();
  EXPECT_EQ(ask(b, request(RequestKind::get, "/k")), text(""));
  EXPECT_EQ(server->stats().rounds, 1U);
}

TEST_F(ServerTest, CountsRequestsByKind) {
  const ConnId a = client();
  ask(a, request(RequestKind::set, "/k", "v"));
  ask(a, request(RequestKind::get, "/k"));
  ask(a, request(RequestKind::get, "/k"));
  const StoreStats stats = server->stats();
  EXPECT_EQ(stats.requests[static_cast<std::size_t>(RequestKind::get)], 2U);
  EXPECT_EQ(stats.requests[static_cast<std::size_t>(RequestKind::set)], 1U);
  EXPECT_EQ(stats.connections_total, 1U);
  EXPECT_EQ(stats.keys, 1U);
}

TEST_F(ServerTest, ClosesEverything) {
  const ConnId a = client();
  const ConnId undecided = network.arrive();
  server->close();
  EXPECT_TRUE(network.closed(a));
  EXPECT_TRUE(network.closed(undecided));
}

}  // namespace
}  // namespace dlaunch::store
