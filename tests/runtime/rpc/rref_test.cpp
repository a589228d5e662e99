// References to values in other processes: their use, their passing, and when the values are destroyed.

#include <dlaunch/rref.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <map>
#include <stdexcept>
#include <type_traits>

#include "tests/runtime/rank_processes.h"
#include "tests/runtime/rpc/rpc_processes.h"

namespace dlaunch::test {
namespace {

using rpc::remote;
using rpc::rpc_async;
using rpc::rpc_sync;
using rpc::RRef;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::atomic<int> counters = 0;
class Counter {
 public:
  explicit Counter(int start) : value_(start) { ++counters; }
  ~Counter() { --counters; }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;
  int add(int n) { return value_ += n; }
  int value() const { return value_; }
  void fail(const std::string& text) { throw std::runtime_error(text); }
  Future<int> add_later(const std::string& worker, int n);

 private:
  std::atomic<int> value_;
};
DLAUNCH_RPC(&Counter::add);
DLAUNCH_RPC(&Counter::value);
DLAUNCH_RPC(&Counter::fail);
DLAUNCH_RPC(&Counter::add_later);
std::shared_ptr<Counter> make_counter(int start) { return std::make_shared<Counter>(start); }
DLAUNCH_RPC(make_counter);
int living() { return counters; }
DLAUNCH_RPC(living);
int twice(int n) { return 2 * n; }
DLAUNCH_RPC(twice);
Future<int> Counter::add_later(const std::string& worker, int n) {
  return rpc_async(worker, twice, n).then([this](const Future<int>& done) { return add(done.wait()); });
}
// Functions that are no members.
int add_twice(Counter& counter, int n) { return counter.add(2 * n); }
DLAUNCH_RPC(add_twice);
Future<int> add_after(Counter& counter, const std::string& worker, int n) {
  return rpc_async(worker, twice, n).then([&counter](const Future<int>& done) {
    return counter.add(done.wait());
  });
}
DLAUNCH_RPC(add_after);
std::vector<double> make_values(int n) { return std::vector<double>(static_cast<std::size_t>(n), 1.5); }
DLAUNCH_RPC(make_values);
std::string make_nothing() { throw std::out_of_range("no such value"); }
DLAUNCH_RPC(make_nothing);

// What another worker keeps.
std::vector<RRef<Counter>> kept;
int keep(const RRef<Counter>& counter) {
  kept.push_back(counter);
  return counter.rpc_sync(&Counter::add, 10);
}
DLAUNCH_RPC(keep);
void keep_all(const std::map<std::string, std::vector<RRef<Counter>>>& all) {
  for (const auto& [name, some] : all) kept.insert(kept.end(), some.begin(), some.end());
}
DLAUNCH_RPC(keep_all);
int use_kept() { return kept[0].rpc_sync(&Counter::value); }
DLAUNCH_RPC(use_kept);
int own_process() { return getpid(); }
DLAUNCH_RPC(own_process);
void forget() { kept.clear(); }
DLAUNCH_RPC(forget);
RRef<Counter> give(int n) { return kept[static_cast<std::size_t>(n)]; }
DLAUNCH_RPC(give);
RRef<Counter> make_at(const std::string& worker, int start) { return remote(worker, make_counter, start); }
DLAUNCH_RPC(make_at);
int local_value_of(const RRef<Counter>& counter) { return counter.local_value().value(); }
DLAUNCH_RPC(local_value_of);
int values_in(const RRef<std::vector<double>>& values) { return static_cast<int>(values.to_here().size()); }
DLAUNCH_RPC(values_in);

// Holds no thread: otherwise all threads of all workers could wait for each other.
Future<int> add_to(const RRef<Counter>& counter) { return counter.rpc_async(&Counter::add, 1); }
DLAUNCH_RPC(add_to);

// Whether that comes about.
bool lives(const char* worker, int number) {
  const auto end = std::chrono::steady_clock::now() + rpc_limit;
  while (rpc_sync(worker, living) != number) {
    if (std::chrono::steady_clock::now() > end) return false;
  }
  return true;
}

// An argument that does not decode if it is negative, and whose message counts that it was rejected.
std::atomic<int> rejected = 0;
struct Noted {
  int number;

  struct Note final : codec::MessageNote {
    void on_sent() override {}
    void on_rejected() override { ++rejected; }
  };
  template <class Archive>
  friend void serialize(Archive& archive, Noted& noted) {
    archive(noted.number);
    if constexpr (std::is_same_v<Archive, codec::Write>) {
      if (archive.writer().has_blocks()) archive.writer().note() = std::make_shared<Note>();
    } else if constexpr (std::is_same_v<Archive, codec::Read>) {
      if (noted.number < 0) throw DistError("a negative number");
    }
  }
};
int number_of(const Noted& noted) {
  if (noted.number == 0) throw std::runtime_error("no number");
  return noted.number;
}
DLAUNCH_RPC(number_of);

TEST(RRef, ARejectedCallIsKnownToBeRejected) {
  expect_ok(2, []() -> std::string {
    REQUIRE(remote("worker1", number_of, Noted{7}).to_here() == 7);
    REQUIRE(error_of<RemoteError>([] {
              (void)remote("worker1", number_of, Noted{0}).to_here();
            }).find("no number") != std::string::npos);
    REQUIRE(rejected == 0);
    for (const std::string worker : {"worker1", "worker0"}) {
      const RRef<int> value = remote(worker, number_of, Noted{-1});
      REQUIRE(error_of<RemoteError>([&] {
                (void)value.to_here();
              }).find("the arguments of 'number_of' do not decode in worker " + worker + " (rank ") !=
              std::string::npos);
      REQUIRE(!value.confirmed_by_owner());
      REQUIRE(rejected.exchange(0) == 1);
    }
    return "ok";
  });
}

TEST(RRef, RefersToAValueInAnotherWorker) {
  expect_ok(2, []() -> std::string {
    const RRef<std::vector<double>> values = remote("worker1", make_values, 3);
    REQUIRE(values.to_here() == std::vector<double>(3, 1.5));
    REQUIRE(values.owner() == (rpc::WorkerInfo{"worker1", 1}));
    REQUIRE(values.owner_name() == "worker1" && !values.is_owner() && values.confirmed_by_owner());
    const RRef<Counter> counter = remote("worker1", make_counter, 5);
    REQUIRE(counter.rpc_sync(&Counter::add, 2) == 7);
    REQUIRE(counter.rpc_async(&Counter::value).wait() == 7);
    REQUIRE(counter.rpc_sync(&Counter::add_later, "worker0", 4) == 15);
    const RRef<Counter> own = remote("worker0", make_counter, 1);
    REQUIRE(own.rpc_sync(&Counter::add, 1) == 2);
    REQUIRE(own.is_owner() && own.local_value().value() == 2);
    const RRef<std::vector<double>> local(std::vector<double>{1, 2});
    REQUIRE(local.is_owner() && local.confirmed_by_owner() && local.to_here().size() == 2);
    REQUIRE(rpc_sync("worker1", values_in, local) == 2);
    return "ok";
  });
}

TEST(RRef, FunctionsOfTheValueAreCalledAtItsOwner) {
  expect_ok(2, []() -> std::string {
    for (const char* owner : {"worker0", "worker1"}) {
      const RRef<Counter> counter = remote(owner, make_counter, 5);
      REQUIRE(counter.rpc_sync(add_twice, 2) == 9);
      REQUIRE(counter.rpc_async(add_after, "worker0", 3).wait() == 15);
    }
    return "ok";
  });
}

TEST(RRef, ErrorsAreThoseOfTheFunction) {
  expect_ok(2, []() -> std::string {
    const RRef<std::string> nothing = remote("worker1", make_nothing);
    REQUIRE(error_of<RemoteError>([&] {
              (void)nothing.to_here();
            }).ends_with("std::out_of_range: no such value"));
    const RRef<Counter> counter = remote("worker1", make_counter, 5);
    REQUIRE(error_of<RemoteError>([&] {
              counter.rpc_sync(&Counter::fail, "no");
            }).ends_with("std::runtime_error: no"));
    REQUIRE(error_of<DistError>([&] { (void)counter.local_value(); }) ==
            "the value of the RRef lives in worker worker1: only its owner has a local value; use to_here()");
    REQUIRE(error_of<DistError>([] { (void)RRef<std::string>().to_here(); }) ==
            "the RRef refers to no value");
    return "ok";
  });
}

TEST(RRef, AValueIsDestroyedWithTheLastReference) {
  expect_ok(2, []() -> std::string {
    RRef<Counter> first = remote("worker1", make_counter, 5);
    RRef<Counter> second = first;
    first = {};
    REQUIRE(second.rpc_sync(&Counter::value) == 5);
    REQUIRE(lives("worker1", 1));
    second = {};
    REQUIRE(lives("worker1", 0));
    remote("worker1", make_counter, 5);  // dropped before it is confirmed
    REQUIRE(lives("worker1", 0));
    return "ok";
  });
}

TEST(RRef, AReferenceThatIsPassedKeepsTheValue) {
  expect_ok(3, []() -> std::string {
    REQUIRE(rpc_sync("worker2", keep, remote("worker1", make_counter, 5)) ==
            15);  // an owner, a user, a third
    REQUIRE(lives("worker1", 1));
    RRef<Counter> back = rpc_sync("worker2", give, 0);
    rpc_sync("worker2", forget);
    REQUIRE(back.rpc_sync(&Counter::value) == 15);
    REQUIRE(rpc_sync("worker1", local_value_of, back) == 15);  // to its owner
    back = {};
    REQUIRE(lives("worker1", 0));
    REQUIRE(rpc_sync("worker2", keep, RRef<Counter>(std::make_shared<Counter>(1))) == 11);  // of this worker
    REQUIRE(counters == 1);
    RRef<Counter> made = rpc_sync("worker2", make_at, "worker1", 3);  // not confirmed when it is returned
    rpc_sync("worker2", keep_all,
             std::map<std::string, std::vector<RRef<Counter>>>{{"a", {made, made, RRef<Counter>()}}});
    made = {};
    REQUIRE(lives("worker1", 1));
    rpc_sync("worker2", forget);
    REQUIRE(lives("worker1", 0));
    REQUIRE(lives("worker0", 0));
    return "ok";
  });
}

TEST(RRef, AUserThatDiesKeepsNoValue) {
  const auto results = run_processes(3, [](int rank) -> std::string {
    rpc::init_rpc(name_of(rank), {.rpc_timeout = std::chrono::milliseconds(0)});
    if (rank > 0) {
      may_leave.wait();
      rpc::shutdown(false);
      return "ok";
    }
    rpc_sync("worker2", keep, remote("worker1", make_counter, 5));
    REQUIRE(lives("worker1", 1));
    (void)error_of<DistNetworkError>([] { rpc_sync("worker2", die); });
    REQUIRE(lives("worker1", 0));
    let_leave("worker1");
    rpc::shutdown(false);
    return "ok";
  });
  EXPECT_EQ(results[0].said, "ok");
  EXPECT_EQ(results[1].said, "ok");
  EXPECT_TRUE(WIFSIGNALED(results[2].status));
}

// It is alive, but neither renews its lease nor acknowledges anything.
TEST(RRef, AUserThatCannotBeReachedKeepsNoValueForEver) {
  const rpc::RpcOptions options{.rpc_timeout = milliseconds(0), .reference_lease = seconds(4)};
  const auto results = run_processes(3, [&](int rank) -> std::string {
    rpc::init_rpc(name_of(rank), options);
    if (rank > 0) {
      may_leave.wait();
      rpc::shutdown(false);
      return "ok";
    }
    const RRef<Counter> mine = remote("worker1", make_counter, 7);
    rpc_sync("worker2", keep, remote("worker1", make_counter, 5));
    REQUIRE(lives("worker1", 2));
    const pid_t user = rpc_sync("worker2", own_process);
    REQUIRE(kill(user, SIGSTOP) == 0);
    REQUIRE(lives("worker1", 1));
    REQUIRE(kill(user, SIGCONT) == 0);
    REQUIRE(error_of<RemoteError>([] { rpc_sync("worker2", use_kept); }) != "no error");
    REQUIRE(mine.rpc_sync(&Counter::value) == 7);  // a user that can be reached keeps the value
    let_leave("worker1");
    let_leave("worker2");
    rpc::shutdown(false);
    return "ok";
  });
  expect_all_say(results, "ok");
}

TEST(RRef, ADeadOwnerEndsTheUseOfItsValues) {
  const auto results = run_processes(2, [](int rank) -> std::string {
    rpc::init_rpc(name_of(rank), {.rpc_timeout = std::chrono::milliseconds(0)});
    if (rank == 1) {
      may_leave.wait();
      return "not killed";
    }
    const RRef<std::vector<double>> values = remote("worker1", make_values, 3);
    REQUIRE(values.to_here().size() == 3);
    (void)error_of<DistNetworkError>([] { rpc_sync("worker1", die); });
    const std::string said = error_of<DistNetworkError>([&] { (void)values.to_here(); });
    rpc::shutdown(false);
    return said;
  });
  EXPECT_TRUE(WIFSIGNALED(results[1].status));
  EXPECT_TRUE(results[0].said.find("worker worker1 (rank 1)") != std::string::npos ||
              results[0].said == "the value of a remote reference is gone with its worker")
      << results[0].said;
}

// Many threads pass and drop references at the same time, in all directions.
TEST(RRef, NothingIsLeftAfterManyPasses) {
  expect_ok(3, []() -> std::string {
    std::vector<Future<int>> all;
    for (int i = 0; i < 200; ++i) {
      const RRef<Counter> counter = remote(i % 3, make_counter, i);
      for (int to = 0; to < 3; ++to) all.push_back(rpc_async(to, add_to, counter));
    }
    int sum = 0;
    for (const Future<int>& one : all) sum += one.wait() >= 0 ? 1 : 0;
    REQUIRE(sum == 600);
    all.clear();
    for (const char* const worker : {"worker0", "worker1", "worker2"}) REQUIRE(lives(worker, 0));
    return "ok";
  });
}

}  // namespace
}  // namespace dlaunch::test
