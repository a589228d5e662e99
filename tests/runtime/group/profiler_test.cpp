// Operations on their way to the profiling callback.

#include "runtime/group/profiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace dlaunch::internal {
namespace {

const GroupDescription group{"pair", 1, 2, std::chrono::seconds(60), "threads"};

TEST(Profiler, WithoutAListenerOperationsHaveNoNumber) {
  Profiler own;
  const std::uint64_t id = own.begin("barrier", group, 1, 0);
  EXPECT_EQ(id, 0U);
  int calls = 0;
  own.set_callback([&](const ProfilingEvent&) { ++calls; });
  own.end(id, true);  // it began before
  EXPECT_EQ(calls, 0);
}

TEST(Profiler, ReportsTheEndWithWhatTheBeginningHad) {
  Profiler own;
  std::vector<std::tuple<std::uint64_t, std::string, std::string, int, std::uint64_t, std::uint64_t, bool>>
      events;
  std::vector<std::int64_t> times;
  own.set_callback([&](const ProfilingEvent& e) {
    events.emplace_back(e.id, e.name, e.group, e.rank, e.sequence, e.bytes, e.success);
    times.push_back(e.time_ns);
  });
  std::string name = "all_reduce";
  const std::uint64_t first = own.begin(name.c_str(), group, 7, 12);
  name = "overwritten";
  const std::uint64_t second = own.begin("send", group, 8, 5);
  EXPECT_NE(first, second);
  own.end(second, false);
  own.end(first, true);
  own.end(first, true);  // an operation ends once
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0], std::tuple(first, "all_reduce", "pair", 1, 7U, 12U, false));
  EXPECT_EQ(events[1], std::tuple(second, "send", "pair", 1, 8U, 5U, false));
  EXPECT_EQ(events[2], events[1]);
  EXPECT_EQ(events[3], std::tuple(first, "all_reduce", "pair", 1, 7U, 12U, true));
  EXPECT_TRUE(std::ranges::is_sorted(times));
}

TEST(Profiler, AnEndGoesToTheCallbackOfThatTime) {
  Profiler own;
  int first = 0;
  int second = 0;
  own.set_callback([&](const ProfilingEvent&) { ++first; });
  const std::uint64_t id = own.begin("barrier", group, 1, 0);
  const std::uint64_t unseen = own.begin("barrier", group, 2, 0);
  own.set_callback([&](const ProfilingEvent& event) {
    ++second;
    EXPECT_EQ(event.kind, ProfilingEvent::Kind::end);
  });
  own.end(id, true);
  own.set_callback(nullptr);
  own.end(unseen, true);
  EXPECT_EQ(own.begin("barrier", group, 3, 0), 0U);
  EXPECT_EQ(first, 2);
  EXPECT_EQ(second, 1);
}

// A callback may make calls itself, or replace itself.
TEST(Profiler, ACallbackMayUseTheProfiler) {
  Profiler own;
  int calls = 0;
  own.set_callback([&](const ProfilingEvent& event) {
    ++calls;
    if (event.name != "barrier") return;
    own.end(own.begin("inner", group, 0, 0), true);
    own.set_callback(nullptr);
  });
  own.begin("barrier", group, 1, 0);
  EXPECT_EQ(calls, 3);
}

TEST(Profiler, NumbersOperationsOfManyThreads) {
  Profiler own;
  std::atomic<int> begins = 0;
  std::atomic<int> ends = 0;
  own.set_callback(
      [&](const ProfilingEvent& event) { ++(event.kind == ProfilingEvent::Kind::begin ? begins : ends); });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 500; ++k) own.end(own.begin("send", group, 1, 0), true);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(begins, 2000);
  EXPECT_EQ(ends, 2000);
}

TEST(ProfiledCall, FailsUnlessItSucceeds) {
  std::vector<bool> ends;
  profiler().set_callback([&](const ProfilingEvent& event) {
    if (event.kind == ProfilingEvent::Kind::end) ends.push_back(event.success);
  });
  { const ProfiledCall call("barrier", group, 0); }
  {
    ProfiledCall call("barrier", group, 0);
    call.succeed();
  }
  profiler().set_callback(nullptr);
  EXPECT_EQ(ends, (std::vector<bool>{false, true}));
}

TEST(TracePath, HasAFileForEachRank) {
  EXPECT_EQ(trace_path("trace.json", 3), "trace.rank3.json");
  EXPECT_EQ(trace_path("a.b/trace", 0), "a.b/trace.rank0");
}

TEST(TracePath, OfAHiddenOrDottedFile) {
  EXPECT_EQ(trace_path("a/b.json", 12), "a/b.rank12.json");
  EXPECT_EQ(trace_path("trace", 0), "trace.rank0");
  EXPECT_EQ(trace_path("a.b.json", 1), "a.b.rank1.json");
  EXPECT_EQ(trace_path("../trace", 1), "../trace.rank1");
}

}  // namespace
}  // namespace dlaunch::internal
