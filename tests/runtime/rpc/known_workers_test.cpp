// Workers that come and go, as processes: a group without a world size.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "dlaunch/rref.h"
#include "dlaunch/store.h"
#include "runtime/base/deadline.h"
#include "tests/runtime/api/variable.h"
#include "tests/runtime/rpc/rpc_processes.h"
#include "tests/runtime/rpc/tcp_connections.h"

namespace dlaunch::test {
namespace {

using rpc::rpc_async;
using rpc::rpc_sync;

int plus(int a, int b) { return a + b; }
DLAUNCH_RPC(plus);
int plus_by(const std::string& other, int a, int b) { return rpc_sync(other, plus, a, b); }
DLAUNCH_RPC(plus_by);
double total(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }
DLAUNCH_RPC(total);
int five() { return 5; }
DLAUNCH_RPC(five);
int value_of_other(const rpc::RRef<int>& value) { return value.to_here(); }
DLAUNCH_RPC(value_of_other);

// By which the processes of a test wait for each other.
class Steps {
 public:
  void done(const std::string& step) { store_->set(step, ""); }
  void await(const std::string& step) { store_->wait(std::vector{step}, rpc_limit); }

 private:
  std::shared_ptr<TcpKeyValueStore> store_ =
      make_tcp_store("127.0.0.1", static_cast<std::uint16_t>(std::stoi(std::getenv("MASTER_PORT"))));
};

// The processes know no rank and no world size.
std::vector<RankResult> run_group(int size, const std::function<std::string(int, Steps&)>& body) {
  return run_processes(size, [&](int rank) {
    unsetenv("WORLD_SIZE");
    unsetenv("RANK");
    Steps steps;
    std::string said = body(rank, steps);
    return said;
  });
}
void join_as(const std::string& name, int rank = -1) { rpc::init_rpc(name, {.rank = rank}); }

#define REQUIRE_HAS(text, part)                                                \
  if (const std::string found = (text); found.find(part) == std::string::npos) \
  return "no '" part "' in: " + found

std::string text_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const DistError& e) {
    return e.what();
  }
  return "no error";
}

// A process that was killed closes its sockets one after the other: others may notice the loss of the first
// one a moment before the last one is closed.
void await(const std::function<bool()>& condition) {
  for (const Deadline limit = deadline_after(rpc_limit); !condition();) {
    if (has_passed(limit)) throw DistError("the condition has not come");
    std::this_thread::yield();
  }
}

TEST(KnownWorkers, ComeLateAndLeaveAlone) {
  const auto results = run_group(2, [](int rank, Steps& steps) -> std::string {
    if (rank == 1) {
      steps.await("a is here");
      join_as("ps");
      steps.done("ps is here");
      steps.await("a has left");
      REQUIRE(rpc::get_worker_infos().size() == 1);
      rpc::shutdown();
      return "ok";
    }
    join_as("a", 3);
    REQUIRE(rpc_sync("a", plus, 1, 2) == 3);
    REQUIRE_HAS(text_of([] { (void)rpc::get_worker_info("ps"); }),
                "there is no worker 'ps': none has joined");
    REQUIRE_HAS(text_of([] { rpc_sync(0, plus, 1, 2); }), "there is no worker 0: none has joined");
    steps.done("a is here");
    steps.await("ps is here");
    const rpc::WorkerInfo ps = rpc::get_worker_info("ps");
    REQUIRE(ps.id == 0 && ps.name == "ps");
    REQUIRE(rpc_sync("ps", plus, 2, 3) == 5);
    REQUIRE(rpc_sync(0, plus_by, "a", 3, 4) == 7);
    REQUIRE((rpc::get_worker_infos() == std::vector<rpc::WorkerInfo>{{"ps", 0}, {"a", 3}}));
    rpc::shutdown();
    steps.done("a has left");
    return "ok";
  });
  expect_all_say(results, "ok");
}

// Another one may take the name.
TEST(KnownWorkers, AWorkerThatHasLeftIsNamed) {
  const auto results = run_group(3, [](int rank, Steps& steps) -> std::string {
    if (rank > 0) {
      if (rank == 2) steps.await("the first is missed");
      join_as("ps");
      steps.done("ps is here " + std::to_string(rank));
      steps.await("ps may leave " + std::to_string(rank));
      rpc::shutdown();
      steps.done("ps has left " + std::to_string(rank));
      return "ok";
    }
    join_as("a", 100);
    steps.await("ps is here 1");
    REQUIRE(rpc_sync("ps", plus, 1, 1) == 2);
    steps.done("ps may leave 1");
    steps.await("ps has left 1");
    REQUIRE_HAS(text_of([] { rpc_sync("ps", plus, 1, 1); }), "worker ps (rank 0)");
    REQUIRE_HAS(text_of([] { rpc_sync(0, plus, 1, 1); }), "has ended its remote calls");
    REQUIRE_HAS(text_of([] { (void)rpc::get_worker_info("ps"); }), "has left");
    steps.done("the first is missed");
    steps.await("ps is here 2");
    REQUIRE(rpc::get_worker_info("ps").id == 1);
    REQUIRE(rpc_sync("ps", plus, 1, 1) == 2);
    steps.done("ps may leave 2");
    rpc::shutdown();
    return "ok";
  });
  expect_all_say(results, "ok");
}

TEST(KnownWorkers, AWorkerThatDiesDoesNotConcernTheOthers) {
  const auto results = run_group(4, [](int rank, Steps& steps) -> std::string {
    if (rank == 3) steps.await("ps is dead");
    join_as(rank == 0 ? "a" : rank == 2 ? "b" : "ps");
    steps.done("here " + std::to_string(rank));
    if (rank == 0) {
      for (const int other : {1, 2}) steps.await("here " + std::to_string(other));
      REQUIRE(rpc_sync("ps", plus_by, "b", 1, 1) == 2);
      REQUIRE_HAS(text_of([] { rpc_sync("ps", die); }), "died");
      REQUIRE_HAS(text_of([] { rpc_sync("ps", plus, 1, 1); }), "worker ps (rank ");
      REQUIRE(rpc_sync("b", plus, 1, 1) == 2);
      steps.done("ps is dead");
      steps.await("here 3");
      REQUIRE(rpc_sync("b", plus_by, "ps", 2, 2) == 4);
      steps.done("all is said");
    }
    steps.await("all is said");
    rpc::shutdown();
    return "ok";
  });
  for (const int rank : {0, 2, 3}) EXPECT_EQ(results[static_cast<std::size_t>(rank)].said, "ok") << rank;
  EXPECT_TRUE(WIFSIGNALED(results[1].status));
}

// As a supervisor starts it again: with the same name and the same rank.
TEST(KnownWorkers, AWorkerThatIsStartedAgainTakesItsRankOver) {
  const auto results = run_group(4, [](int rank, Steps& steps) -> std::string {
    if (rank == 2 || rank == 3) {
      const bool is_second = rank == 3;
      if (is_second) steps.await("ps is dead");
      await([] { return text_of([] { join_as("ps", 5); }) == "no error"; });
      steps.done(is_second ? "ps is here again" : "ps is here");
      if (is_second) REQUIRE(rpc_sync("b", plus, 3, 3) == 6);
      steps.await("all is said");
      rpc::shutdown();
      return "ok";
    }
    join_as(rank == 0 ? "a" : "b", rank);
    if (rank == 1) {
      steps.await("ps is here");
      REQUIRE(rpc_sync(5, plus, 1, 1) == 2);
      steps.done("b knows ps");
    } else {
      steps.await("b knows ps");
      const rpc::RRef<int> value = rpc::remote("ps", five);
      REQUIRE(value.to_here() == 5);
      REQUIRE_HAS(text_of([] { rpc_sync("ps", die); }), "died");
      steps.done("ps is dead");
      steps.await("ps is here again");
      REQUIRE(rpc_sync(5, plus, 1, 1) == 2);
      REQUIRE(rpc_sync("ps", plus_by, "b", 2, 2) == 4);
      REQUIRE(rpc::remote("ps", five).to_here() == 5);
      REQUIRE_HAS(text_of([&] { (void)value.to_here(); }), "worker");  // that of the first one is gone
      REQUIRE((rpc::get_worker_infos() == std::vector<rpc::WorkerInfo>{{"a", 0}, {"b", 1}, {"ps", 5}}));
      REQUIRE(rpc_sync(1, plus_by, "ps", 3, 3) == 6);
      steps.done("all is said");
    }
    steps.await("all is said");
    rpc::shutdown();
    return "ok";
  });
  for (const int rank : {0, 1, 3}) EXPECT_EQ(results[static_cast<std::size_t>(rank)].said, "ok") << rank;
  EXPECT_TRUE(WIFSIGNALED(results[2].status));
}

// The connections for long arguments go with the worker that is killed, and come with the next one.
TEST(KnownWorkers, AWorkerThatIsKilledInALongCallIsCalledAgain) {
  const Variable over_tcp("DLAUNCH_RPC_UNIX", "0");
  const auto results = run_group(3, [](int rank, Steps& steps) -> std::string {
    const std::vector<double> values(std::size_t{4} << 20U, 1.0);
    if (rank > 0) {
      const bool is_second = rank == 2;
      if (is_second) steps.await("ps is dead");
      await([] { return text_of([] { join_as("ps", 1); }) == "no error"; });
      steps.done(is_second ? "ps is here again" : "ps is here");
      steps.await("all is said");
      rpc::shutdown();
      return "ok";
    }
    join_as("a", 0);
    steps.await("ps is here");
    const auto calls_until_wide = [&] {
      await([&] {
        return rpc_sync("ps", total, values) == static_cast<double>(values.size()) &&
               tcp_connections_of_this_process() == 5;
      });
    };
    calls_until_wide();
    std::vector<Future<double>> long_ones;
    for (int i = 0; i < 8; ++i) long_ones.push_back(rpc_async("ps", total, values));
    REQUIRE_HAS(text_of([] { rpc_sync("ps", die); }),
                "'die' was sent, no answer: worker ps (rank 1) on host");
    for (const Future<double>& one : long_ones) {
      const std::string text = text_of([&] { one.wait(); });
      REQUIRE(text == "no error" || text.find("'total' was ") != std::string::npos);
    }
    await([] { return tcp_connections_of_this_process() == 0; });
    steps.done("ps is dead");
    steps.await("ps is here again");
    calls_until_wide();
    steps.done("all is said");
    rpc::shutdown();
    return "ok";
  });
  for (const int rank : {0, 2}) EXPECT_EQ(results[static_cast<std::size_t>(rank)].said, "ok") << rank;
  EXPECT_TRUE(WIFSIGNALED(results[1].status));
}

TEST(KnownWorkers, AWorkerThatHasDiedIsNotListed) {
  const auto results = run_group(2, [](int rank, Steps& steps) -> std::string {
    join_as(rank == 0 ? "a" : "ps", rank);
    steps.done("here " + std::to_string(rank));
    if (rank == 0) {
      steps.await("here 1");
      REQUIRE(rpc::get_worker_infos().size() == 2);
      REQUIRE_HAS(text_of([] { rpc_sync("ps", die); }), "worker ps (rank 1)");
      await([] { return rpc::get_worker_infos() == std::vector<rpc::WorkerInfo>{{"a", 0}}; });
      REQUIRE_HAS(text_of([] { rpc_sync("ps", plus, 1, 1); }), "worker ps (rank 1)");
      steps.done("all is said");
    }
    steps.await("all is said");
    rpc::shutdown();
    return "ok";
  });
  EXPECT_EQ(results[0].said, "ok");
  EXPECT_TRUE(WIFSIGNALED(results[1].status));
}

TEST(KnownWorkers, ASecondOneOfANameOrARankIsRejected) {
  const auto results = run_group(3, [](int rank, Steps& steps) -> std::string {
    if (rank > 0) steps.await("ps is here");
    if (rank == 1) {
      std::string said = text_of([] { join_as("ps"); });
      join_as("one");  // under another name
      REQUIRE(rpc_sync("ps", plus, 1, 1) == 2);
      rpc::shutdown();
      steps.done("rejected 1");
      return said;
    }
    if (rank == 2) {
      std::string said = text_of([] { join_as("two", 5); });
      steps.done("rejected 2");
      return said;
    }
    join_as("ps", 5);
    steps.done("ps is here");
    for (const int other : {1, 2}) steps.await("rejected " + std::to_string(other));
    rpc::shutdown();
    return "ok";
  });
  EXPECT_EQ(results[0].said, "ok");
  EXPECT_NE(results[1].said.find("the name 'ps' is that of worker ps (rank 5) on host"), std::string::npos)
      << results[1].said;
  EXPECT_NE(results[2].said.find("rank 5 is that of worker ps (rank 5) on host"), std::string::npos)
      << results[2].said;
  EXPECT_NE(results[2].said.find(" (pid "), std::string::npos) << results[2].said;
}

// b has never heard of ps before.
TEST(KnownWorkers, ReferencesReachWorkersThatTheyDoNotKnow) {
  const auto results = run_group(3, [](int rank, Steps& steps) -> std::string {
    join_as(rank == 0 ? "a" : rank == 1 ? "ps" : "b");
    steps.done("here " + std::to_string(rank));
    if (rank == 0) {
      for (const int other : {1, 2}) steps.await("here " + std::to_string(other));
      const rpc::RRef<int> value = rpc::remote("ps", five);
      REQUIRE(rpc_sync("b", value_of_other, value) == 5);
      steps.done("all is said");
    }
    steps.await("all is said");
    rpc::shutdown();
    return "ok";
  });
  expect_all_say(results, "ok");
}

TEST(KnownWorkers, ShutdownWaitsForCallsOfThisWorkerAlone) {
  const auto results = run_group(2, [](int rank, Steps& steps) -> std::string {
    join_as(rank == 0 ? "a" : "ps");
    steps.done("here " + std::to_string(rank));
    if (rank == 1) {
      steps.await("a has left");
      rpc::shutdown();
      return "ok";
    }
    steps.await("here 1");
    const Future<int> sum = rpc_async("ps", plus_by, "a", 20, 22);  // it calls back
    rpc::shutdown();
    REQUIRE(sum.done() && sum.wait() == 42);
    steps.done("a has left");
    return "ok";
  });
  expect_all_say(results, "ok");
}

TEST(KnownWorkers, AGroupOfAStoreThatIsGiven) {
  rpc::init_rpc("a", {.store = make_hash_store()});
  EXPECT_EQ(rpc::get_worker_info(), (rpc::WorkerInfo{"a", 0}));
  EXPECT_EQ(rpc_sync("a", plus, 1, 2), 3);
  rpc::shutdown();
}

}  // namespace
}  // namespace dlaunch::test
