// The public calls between processes.

#include <dlaunch/rpc.h>
#include <dlaunch/rpc_info.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <thread>
#include <variant>

#include "tests/runtime/api/variable.h"
#include "tests/runtime/rank_processes.h"
#include "tests/runtime/rpc/rpc_processes.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::test {
namespace {

using rpc::rpc_async;
using rpc::rpc_sync;
using std::chrono::milliseconds;
using std::chrono::seconds;

int add(int a, int b) { return a + b; }
DLAUNCH_RPC(add);
std::string join(std::string_view a, const std::string& b) { return std::string(a) + b; }
DLAUNCH_RPC(join);
double sum(std::span<const double> values) {
  double all = 0;
  for (const double value : values) all += value;
  return all;
}
DLAUNCH_RPC(sum);
using Mixed = std::tuple<std::optional<int>, std::variant<std::string, double>, std::set<int>>;
std::map<std::string, Mixed> mirror(const std::map<std::string, Mixed>& values) { return values; }
DLAUNCH_RPC(mirror);
std::vector<float> doubled(std::vector<float> values) {
  for (float& value : values) value *= 2;
  return values;
}
DLAUNCH_RPC(doubled);
struct RowError : std::out_of_range {
  using std::out_of_range::out_of_range;
};
void fail(int how) {
  if (how == 0) throw RowError("no row 7");
  throw 7;
}
DLAUNCH_RPC(fail);
int add_by(const std::string& other, int a, int b) { return rpc_sync(other, add, a, b); }
DLAUNCH_RPC(add_by);
// Holds no thread while it waits.
Future<int> add_later(const std::string& other, int a, int b) {
  return rpc_async(other, add, a, b).then([](const Future<int>& done) { return 10 * done.wait(); });
}
DLAUNCH_RPC(add_later);
void wait_for_ever() {
  for (;;) pause();
}
DLAUNCH_RPC(wait_for_ever);
int process() { return getpid(); }
DLAUNCH_RPC(process);
int unregistered(int a) { return a; }
bool wait_for_gate() { return may_leave.wait(); }
DLAUNCH_RPC(wait_for_gate);
// "worker0 wait_for_gate running": what runs here for others, without the call of this.
std::string served() {
  std::string text;
  for (const rpc::CallInfo& call : rpc::get_debug_info().served) {
    if (call.function == "served") continue;
    text += call.worker + " " + call.function +
            (call.state == rpc::CallInfo::State::running ? " running" : " waiting") + "\n";
  }
  return text;
}
DLAUNCH_RPC(served);

TEST(Rpc, ArgumentsAndResultsOfAllKinds) {
  expect_ok(2, []() -> std::string {
    REQUIRE(rpc_sync("worker1", add, 2, 3) == 5);
    REQUIRE(rpc_sync(1, add, 2, 3) == 5);
    REQUIRE(rpc_sync(rpc::get_worker_info("worker1"), add, 2, short{3}) == 5);
    REQUIRE(rpc_sync("worker0", add, 1, 1) == 2);
    REQUIRE(rpc_sync("worker1", join, "a", "b") == "ab");
    REQUIRE(rpc_sync("worker1", sum, std::vector<double>{1, 2.5}) == 3.5);
    const std::vector<double> values = {1, 2, 3};
    REQUIRE(rpc_sync("worker1", sum, std::span<const double>(values).first(2)) == 3);
    const std::map<std::string, Mixed> mixed = {{"a", {7, "text", {1, 2}}}, {"b", {std::nullopt, 1.5, {}}}};
    REQUIRE(rpc_sync("worker1", mirror, mixed) == mixed);
    const std::vector<float> large(1'000'000, 1.5F);
    REQUIRE(rpc_sync("worker1", doubled, large) == std::vector<float>(large.size(), 3.F));
    const Future<int> future = rpc_async("worker1", add, 4, 5);
    REQUIRE(future.then([](const Future<int>& done) { return done.wait() + 1; }).wait() == 10);
    return "ok";
  });
}

// Where long arguments are: views of what has arrived are aligned.
std::size_t misplaced(std::span<const double> numbers, std::string_view text, std::span<const float> more) {
  const auto place = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data); };
  return (place(numbers.data()) | place(text.data()) | place(more.data())) % codec::block_alignment;
}
DLAUNCH_RPC(misplaced);
std::string concatenated(std::string_view a, const std::string& b, const std::vector<std::string>& c) {
  std::string all = std::string(a) + b;
  for (const std::string& one : c) all += one;
  return all;
}
DLAUNCH_RPC(concatenated);

TEST(Rpc, LongArgumentsOfAllKinds) {
  expect_ok(2, []() -> std::string {
    const std::string a(100'001, 'a');
    const std::string b(codec::shortest_block, 'b');
    const std::vector<std::string> c = {"short", std::string(300'007, 'c'), "", std::string(70'000, 'd')};
    const std::vector<double> numbers(50'001, 1.5);
    const std::vector<float> more(codec::shortest_block / sizeof(float) + 1);
    for (const char* const worker : {"worker1", "worker0"}) {
      REQUIRE(rpc_sync(worker, concatenated, a, b, c) == concatenated(a, b, c));
      REQUIRE(rpc_sync(worker, concatenated, "a", b, c) == concatenated("a", b, c));
      REQUIRE(rpc_async(worker, concatenated, a, std::string(b), c).wait() == concatenated(a, b, c));
      REQUIRE(rpc_sync(worker, sum, numbers) == 1.5 * 50'001);
      REQUIRE(rpc_sync(worker, sum, std::span(numbers).subspan(1)) == 1.5 * 50'000);
      REQUIRE(rpc_sync(worker, misplaced, numbers, a, more) == 0);
    }
    return "ok";
  });
}

// Over TCP, as between hosts: long and short ones at once, in both directions.
TEST(Rpc, LongArgumentsAndResultsOverSeveralConnections) {
  const Variable over_tcp("DLAUNCH_RPC_UNIX", "0");
  for (const char* const connections : {"1", "2", "16"}) {
    const Variable number("DLAUNCH_RPC_CONNECTIONS", connections);
    expect_all_say(
        run_processes(2,
                      [](int rank) -> std::string {
                        rpc::init_rpc(name_of(rank));
                        const std::string other = name_of(1 - rank);
                        std::vector<Future<std::vector<float>>> long_ones;
                        std::vector<Future<int>> short_ones;
                        for (int round = 0; round < 3; ++round) {
                          for (int i = 0; i < 8; ++i) {
                            const auto size = static_cast<std::size_t>(200'000 * (i + 1) + i);
                            long_ones.push_back(rpc_async(other, doubled, std::vector<float>(size, 1.5F)));
                            short_ones.push_back(rpc_async(other, add, i, 1));
                          }
                          for (std::size_t i = 0; i < 8; ++i) {
                            const std::size_t at = static_cast<std::size_t>(round) * 8 + i;
                            REQUIRE(short_ones[at].wait() == static_cast<int>(i) + 1);
                            REQUIRE(long_ones[at].wait() == std::vector<float>(200'000 * (i + 1) + i, 3.F));
                          }
                        }
                        rpc::shutdown();
                        return "ok";
                      }),
        "ok");
  }
}

TEST(Rpc, TheCallerMayChangeItsMemoryAfterAnAsynchronousCall) {
  expect_ok(2, []() -> std::string {
    std::vector<double> values(1'000'000, 1);
    std::vector<Future<double>> calls;
    for (int i = 1; i <= 8; ++i) {
      std::ranges::fill(values, i);
      calls.push_back(rpc_async("worker1", sum, values));
    }
    calls.push_back(rpc_async("worker1", sum, std::move(values)));
    for (int i = 1; i <= 8; ++i) REQUIRE(calls[static_cast<std::size_t>(i - 1)].wait() == 1e6 * i);
    REQUIRE(calls[8].wait() == 8e6);
    return "ok";
  });
}

TEST(Rpc, CallsUnderWayAreShownOnBothSides) {
  expect_ok(2, []() -> std::string {
    REQUIRE(rpc_sync("worker1", add, 2, 3) == 5);
    const Future<bool> held = rpc_async("worker1", wait_for_gate);
    while (rpc_sync("worker1", served) != "worker0 wait_for_gate running\n") std::this_thread::yield();
    const rpc::DebugInfo info = rpc::get_debug_info();
    REQUIRE(info.made.size() == 1 && info.served.empty());
    REQUIRE(info.made[0].worker == "worker1" && info.made[0].function == "wait_for_gate");
    REQUIRE(info.made[0].state == rpc::CallInfo::State::sent);
    REQUIRE(info.calls >= 3 && info.succeeded == info.calls - 1 && info.failed == 0);
    rpc_sync("worker1", leave);
    REQUIRE(held.wait());
    REQUIRE(error_of<RemoteError>([] { rpc_sync("worker1", fail, 0); }) != "no error");
    const rpc::DebugInfo after = rpc::get_debug_info();
    REQUIRE(after.made.empty() && after.failed == 1 && after.arrived == 0);
    REQUIRE(after.bytes_sent > 0 && after.bytes_received > 0);
    REQUIRE(after.total_latency >= after.longest_latency && after.longest_latency.count() > 0);
    return "ok";
  });
}

std::vector<nlohmann::json> calls_in_trace(const std::string& path, const std::string& phase) {
  std::vector<nlohmann::json> found;
  for (const nlohmann::json& event : nlohmann::json::parse(std::ifstream(path))) {
    if (event["ph"] == phase && event.contains("ts")) found.push_back(event);
  }
  return found;
}

TEST(Rpc, TheTimelinesOfBothWorkersAreJoined) {
  const TemporaryFolder folder;
  const Variable trace("DLAUNCH_TRACE", (folder.path() + "/t.json").c_str());
  expect_ok(2, []() -> std::string {
    REQUIRE(rpc_sync("worker1", add, 2, 3) == 5);
    return "ok";
  });
  const std::string caller = folder.path() + "/t.rank0.json";
  const std::string callee = folder.path() + "/t.rank1.json";
  ASSERT_EQ(calls_in_trace(caller, "X").size(), 1U);
  ASSERT_EQ(calls_in_trace(callee, "X").size(), 1U);
  const nlohmann::json call = calls_in_trace(caller, "X")[0];
  const nlohmann::json run = calls_in_trace(callee, "X")[0];
  EXPECT_EQ(call["name"], "add");
  EXPECT_EQ(call["args"]["success"], true);
  EXPECT_EQ(std::tuple(call["pid"], run["pid"]), std::tuple(0, 1));
  ASSERT_EQ(calls_in_trace(caller, "s").size(), 1U);
  ASSERT_EQ(calls_in_trace(callee, "f").size(), 1U);
  const nlohmann::json from = calls_in_trace(caller, "s")[0];
  const nlohmann::json to = calls_in_trace(callee, "f")[0];
  EXPECT_EQ(from["id"], to["id"]);
  EXPECT_EQ(from["ts"], call["ts"]);
  EXPECT_EQ(to["ts"], run["ts"]);
  EXPECT_EQ(to["tid"], run["tid"]);
}

TEST(Rpc, ExceptionsComeBack) {
  expect_ok(2, []() -> std::string {
    try {
      rpc_sync("worker1", fail, 0);
      return "no exception";
    } catch (const RemoteError& e) {
      REQUIRE(e.worker() == "worker1");
      REQUIRE(e.type().ends_with("RowError"));
      REQUIRE(e.text() == "no row 7");
      REQUIRE(e.reason().starts_with("'fail' failed in worker worker1 (rank 1) on host "));
      REQUIRE(e.reason().ends_with("RowError: no row 7"));
    }
    REQUIRE(error_of<RemoteError>([] { rpc_sync("worker1", fail, 1); }).ends_with("no std::exception"));
    REQUIRE(rpc_sync("worker1", add, 2, 3) == 5);
    return "ok";
  });
}

TEST(Rpc, FunctionsMayCallOthersWithOneThread) {
  expect_ok(3,
            []() -> std::string {
              REQUIRE(rpc_sync("worker1", add_by, "worker2", 2, 3) == 5);
              REQUIRE(rpc_sync("worker1", add_by, "worker0", 2, 3) == 5);
              REQUIRE(rpc_sync("worker1", add_later, "worker0", 2, 3) == 50);
              std::vector<Future<int>> many;
              for (int i = 0; i < 100; ++i) many.push_back(rpc_async("worker1", add_later, "worker2", i, 1));
              for (int i = 0; i < 100; ++i) REQUIRE(many[static_cast<std::size_t>(i)].wait() == 10 * (i + 1));
              return "ok";
            },
            {.num_worker_threads = 1});
}

TEST(Rpc, WrongCallsAreErrorsOfTheCaller) {
  expect_ok(2, []() -> std::string {
    REQUIRE(error_of<DistError>([] { rpc_sync("worker7", add, 1, 2); }) ==
            "there is no worker 'worker7'; there are worker0, worker1");
    REQUIRE(error_of<DistError>([] { rpc_sync(2, add, 1, 2); }) == "there is no worker 2; there are 2");
    REQUIRE(error_of<DistError>([] { rpc_sync("worker1", unregistered, 1); }) ==
            "the function is not registered: add DLAUNCH_RPC(its name) beside it");
    REQUIRE(error_of<DistError>([] {
              rpc::init_rpc("again");
            }).starts_with("init_rpc: this process is already worker worker0"));
    REQUIRE(error_of<DistError>([] { rpc::get_worker_info("ps"); }) ==
            "there is no worker 'ps'; there are worker0, worker1");
    REQUIRE(rpc::get_worker_info() == (rpc::WorkerInfo{"worker0", 0}));
    REQUIRE(rpc::get_worker_infos() == (std::vector<rpc::WorkerInfo>{{"worker0", 0}, {"worker1", 1}}));
    return "ok";
  });
}

// The callee knows other functions than the caller.
TEST(Rpc, UnknownFunctionsAndSignaturesAreErrorsThatSaySo) {
  expect_all_say(
      run_processes(2,
                    [](int rank) {
                      using rpc::rpc_detail::add_function;
                      int (*const here)(int) = unregistered;
                      const auto as = [&](const char* name, std::uint64_t signature) {
                        add_function(name, signature, rpc::rpc_detail::bytes_of(here),
                                     rpc::rpc_detail::handler_of(here));
                      };
                      return with_rpc(rank, [&]() -> std::string {
                        as("only here", 1);
                        REQUIRE(error_of<RemoteError>([&] {
                                  rpc_sync("worker1", here, 1);
                                }).find("has registered no function 'only here'") != std::string::npos);
                        return "ok";
                      });
                    }),
      "ok");
  expect_all_say(run_processes(2,
                               [](int rank) {
                                 int (*const here)(int) = unregistered;
                                 const std::uint64_t own = rpc::rpc_detail::signature_of_function<int, int>();
                                 rpc::rpc_detail::add_function("f", rank == 0 ? own : own + 1,
                                                               rpc::rpc_detail::bytes_of(here),
                                                               rpc::rpc_detail::handler_of(here));
                                 return with_rpc(rank, [&]() -> std::string {
                                   REQUIRE(error_of<RemoteError>([&] {
                                             rpc_sync("worker1", here, 1);
                                           }).find("with other types of arguments") != std::string::npos);
                                   return "ok";
                                 });
                               }),
                 "ok");
}

TEST(Rpc, CallsEndAtTheirTimeouts) {
  const auto results = run_processes(2, [](int rank) {
    rpc::init_rpc(name_of(rank), {.rpc_timeout = milliseconds(50)});
    std::string said = "ok";
    if (rank == 0) {
      rpc_sync({"worker1", milliseconds(0)}, add, 1, 2);  // they are connected
      said = error_of<DistNetworkError>([] { rpc_sync("worker1", wait_for_ever); });
      said += "|" + error_of<DistNetworkError>([] {
                rpc_sync({"worker1", milliseconds(60)}, wait_for_ever);
              });
      said += "|" + std::to_string(rpc_sync({"worker1", milliseconds(0)}, add, 1, 2));
      let_leave("worker1");
    } else {
      may_leave.wait();
    }
    rpc::shutdown(false);
    return said;
  });
  EXPECT_NE(results[0].said.find(
                "did not answer 'wait_for_ever' within 50 ms; it was sent, and may still run there|"),
            std::string::npos)
      << results[0].said;
  EXPECT_NE(results[0].said.find("within 60 ms"), std::string::npos);
  EXPECT_TRUE(results[0].said.ends_with("|3"));
}

TEST(Rpc, ADeadCalleeEndsItsCallsAndNoOthers) {
  const auto results = run_processes(3, [](int rank) {
    rpc::init_rpc(name_of(rank), {.rpc_timeout = milliseconds(0)});
    if (rank > 0) {
      may_leave.wait();
      rpc::shutdown();
    }
    const Future<void> waiting = rpc_async("worker1", wait_for_ever);
    rpc_sync("worker1", add, 1, 2);
    std::string said = error_of<DistNetworkError>([] { rpc_sync("worker1", die); });
    said += "|" + error_of<DistNetworkError>([&] { waiting.wait(); });
    said += "|" + std::to_string(rpc_sync("worker2", add, 1, 2));
    said += "|" + error_of<DistNetworkError>([] { rpc_sync("worker1", add, 1, 2); });
    let_leave("worker2");
    said += "|" + error_of<DistNetworkError>([] { rpc::shutdown(); });
    return said;
  });
  EXPECT_TRUE(WIFSIGNALED(results[1].status));
  const std::string& said = results[0].said;
  EXPECT_TRUE(said.starts_with("'die' was sent, no answer: worker worker1 (rank 1) on host ")) << said;
  EXPECT_NE(said.find("died|'wait_for_ever' was sent, no answer: worker worker1"), std::string::npos) << said;
  EXPECT_NE(said.find("|3|'add' was not sent: worker worker1 (rank 1) on host "), std::string::npos) << said;
  EXPECT_TRUE(said.ends_with("died, and has not called shutdown")) << said;
  EXPECT_NE(results[2].said.find("died, and has not called shutdown"), std::string::npos) << results[2].said;
}

// Rank 0 leaves last: functions that run for others make calls when these have been called shutdown already.
TEST(Rpc, ShutdownWaitsForAllCalls) {
  const auto results = run_processes(3, [](int rank) -> std::string {
    rpc::init_rpc(name_of(rank));
    std::vector<Future<int>> all;
    for (int i = 0; i < 50; ++i) {
      all.push_back(rpc_async((rank + 1) % 3, add_later, name_of((rank + 2) % 3), i, rank));
    }
    rpc::shutdown();
    for (int i = 0; i < 50; ++i) {
      REQUIRE(all[static_cast<std::size_t>(i)].done());
      REQUIRE(all[static_cast<std::size_t>(i)].wait() == 10 * (i + rank));
    }
    REQUIRE(error_of<DistError>([] { rpc_sync(0, add, 1, 2); }) ==
            "remote calls have not begun: call init_rpc first");
    return "ok";
  });
  expect_all_say(results, "ok");
}

TEST(Rpc, ShutdownNamesThoseThatDoNotCome) {
  const auto results = run_processes(2, [](int rank) -> std::string {
    rpc::init_rpc(name_of(rank));
    if (rank == 1) wait_for_ever();
    const int other = rpc_sync(1, process);
    const std::string said = error_of<DistNetworkError>([] { rpc::shutdown(true, milliseconds(300)); });
    kill(other, SIGKILL);
    return said;
  });
  EXPECT_TRUE(results[0].said.starts_with("not called by worker worker1 (rank 1) on host "))
      << results[0].said;
}

TEST(Rpc, MayBeginAgain) {
  expect_all_say(run_processes(2,
                               [](int rank) -> std::string {
                                 for (int i = 0; i < 3; ++i) {
                                   const std::string said = with_rpc(rank, []() -> std::string {
                                     REQUIRE(rpc_sync("worker1", add, 2, 3) == 5);
                                     return "ok";
                                   });
                                   if (said != "ok") return said;
                                 }
                                 return "ok";
                               }),
                 "ok");
}

TEST(Rpc, TwoWorkersOfOneNameAreAnError) {
  const auto results =
      run_processes(2, [](int) -> std::string { return error_of<DistError>([] { rpc::init_rpc("ps"); }); });
  for (const RankResult& result : results) {
    EXPECT_EQ(result.said, "the workers 0 and 1 both have the name 'ps': give each its own");
  }
}

TEST(Rpc, AMissingWorkerIsNamed) {
  const auto results = run_processes(
      2,
      [](int rank) -> std::string {
        return error_of<DistNetworkError>(
            [&] { rpc::init_rpc(name_of(rank), {.init_timeout = milliseconds(300)}); });
      },
      1);
  EXPECT_NE(results[0].said.find("rank 1"), std::string::npos) << results[0].said;
}

// Without a framework there are no devices. Workers that come and go find it before they join.
TEST(Rpc, DeviceMapsOfDevicesThatAreNotThereAreErrors) {
  for (const bool is_open : {false, true}) {
    const auto results = run_processes(2, [&](int rank) {
      if (is_open) unsetenv("WORLD_SIZE");
      rpc::RpcOptions options;
      if (rank == 0 || is_open) options.set_device_map("worker1", {{0, 0}});
      return error_of<DistError>([&] { rpc::init_rpc(name_of(rank), options); });
    });
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const std::string worker = name_of(is_open ? static_cast<int>(rank) : 0);
      EXPECT_EQ(results[rank].said, "the device map of worker " + worker +
                                        " for worker worker1 names device 0 of worker " + worker +
                                        ", which has no devices: CUDA and libdlaunch_torch show it some");
    }
  }
}

TEST(Rpc, WrongOptionsAreErrors) {
  const auto wrong = [](const std::string& name, const rpc::RpcOptions& options) {
    return error_of<DistError>([&] { rpc::init_rpc(name, options); });
  };
  EXPECT_EQ(wrong("", {}), "init_rpc: a worker needs a name");
  EXPECT_EQ(wrong("a", {.num_worker_threads = 0}),
            "init_rpc: num_worker_threads is 0, not between 1 and 4096");
  EXPECT_EQ(wrong("a", {.rpc_timeout = milliseconds(-1)}), "init_rpc: rpc_timeout is negative");
  for (const char* const connections : {"0", "17", "-1", "four", "4 "}) {
    const Variable number("DLAUNCH_RPC_CONNECTIONS", connections);
    EXPECT_EQ(wrong("a", {}), "init_rpc: DLAUNCH_RPC_CONNECTIONS is '" + std::string(connections) +
                                  "', not a number from 1 to 16");
  }
  EXPECT_EQ(error_of<DistError>([] { rpc::shutdown(); }), "remote calls have not begun: call init_rpc first");
  EXPECT_EQ(error_of<DistError>([] { rpc_sync("worker1", add, 1, 2); }),
            "remote calls have not begun: call init_rpc first");
}

}  // namespace
}  // namespace dlaunch::test
