#include "launcher/commands/job_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "launcher/commands/job_dump.h"
#include "tests/agent/model/made_page.h"

namespace dlaunch::launcher {
namespace {

using agent::MadePage;
using nlohmann::json;
using page::Operation;

constexpr std::int64_t ms = 1'000'000;

std::string dump_of(const std::vector<const MadePage*>& pages, const std::string& host = "a",
                    const agent::SharedClock& clock = {}) {
  JobDump dump;
  dump.job.clock = clock;
  dump.job.job = "j";
  dump.job.host = host;
  for (const MadePage* page : pages) {
    WorkerDump worker;
    worker.seen = {*agent::parse_worker_page(page->bytes(), page->bytes()), agent::Condition::runs};
    dump.workers.push_back(worker);
  }
  return to_json(dump);
}

json trace_of(const std::vector<std::string>& dumps) {
  std::vector<TracedNode> nodes;
  for (const std::string& dump : dumps) {
    auto node = operations_in(dump, "dump");
    EXPECT_TRUE(node) << node.error().message();
    nodes.push_back(std::move(*node));
  }
  return json::parse(to_trace(std::move(nodes)));
}

std::vector<json> events(const json& trace, const std::string& phase) {
  std::vector<json> found;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == phase) found.push_back(event);
  }
  return found;
}

// Two ranks of group "default". Rank 1 comes last, 3 ms after rank 0; both end at 5 ms.
class JobTrace : public testing::Test {
 protected:
  // Of a rank that has done one operation.
  static MadePage page(int rank, int ranks, Operation operation, std::int64_t began, std::int64_t ended) {
    MadePage page(rank, ranks);
    page.add_group(1, "default");
    page.end(page.enter(1, operation, 1, began), ended);
    return page;
  }

  MadePage first_ = page(0, 2, Operation::all_reduce, 1 * ms, 5 * ms);
  MadePage second_ = page(1, 2, Operation::all_reduce, 4 * ms, 5 * ms);
};

TEST_F(JobTrace, JoinsARemoteCallAtItsCallerAndItsCallee) {
  first_.set_worker(0, "trainer");
  second_.set_worker(1, "ps");
  first_.call(7, "ps", "add", page::Call::succeeded, 6 * ms).ended_ns = 9 * ms;
  first_.call(8, "ps", "add", page::Call::sent, 7 * ms);
  page::Call& run = second_.call(7, "trainer", "add", page::Call::succeeded, 7 * ms);
  run.is_served = 1;
  run.peer = 0;
  run.ended_ns = 8 * ms;
  const json trace = trace_of({dump_of({&first_, &second_})});
  const auto is_call = [](const json& event) { return event["name"] == "remote call"; };
  std::vector<json> starts = events(trace, "s");
  std::vector<json> ends = events(trace, "f");
  std::erase_if(starts, [&](const json& event) { return !is_call(event); });
  std::erase_if(ends, [&](const json& event) { return !is_call(event); });
  ASSERT_EQ(starts.size(), 1U) << "the other call has not arrived";
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(starts[0]["id"], ends[0]["id"]);
  EXPECT_EQ(std::tuple(starts[0]["pid"], starts[0]["ts"]), std::tuple(0, 5000.0));
  EXPECT_EQ(std::tuple(ends[0]["pid"], ends[0]["ts"]), std::tuple(1, 6000.0));
  std::map<std::string, json> spans;
  for (const json& event : events(trace, "X")) spans[event["name"]] = event;
  EXPECT_EQ(spans["add in ps"]["dur"], 3000.0);
  EXPECT_EQ(spans["add in ps"]["cat"], "rpc");
  EXPECT_EQ(spans["add for trainer"]["pid"], 1);
  EXPECT_EQ(events(trace, "B").at(0)["name"], "add in ps");
  EXPECT_NE(trace.dump().find("calls to other workers"), std::string::npos);
}

TEST_F(JobTrace, ShowsEachOperation) {
  const json trace = trace_of({dump_of({&first_, &second_})});
  EXPECT_EQ(trace["otherData"]["begins_unix_ns"], 1 * ms);
  const std::vector<json> complete = events(trace, "X");
  ASSERT_EQ(complete.size(), 2U);
  EXPECT_EQ(complete[0],
            json::parse(R"({"name": "all_reduce", "cat": "collective", "ph": "X", "pid": 0, "tid": 1,
      "ts": 0.0, "dur": 4000.0, "args": {"sequence": 1, "state": "completed", "elements": 8, "dtype": "Float"}})"));
  EXPECT_EQ(complete[1]["pid"], 1);
  EXPECT_EQ(complete[1]["ts"], 3000.0);
  EXPECT_EQ(complete[1]["dur"], 1000.0);
}

TEST_F(JobTrace, NamesRanksHostsAndGroups) {
  const json trace = trace_of({dump_of({&first_}, "a"), dump_of({&second_}, "b")});
  std::map<std::tuple<std::string, int>, std::string> names;
  for (const json& event : events(trace, "M")) {
    if (event["args"].contains("name")) names[{event["name"], event["pid"]}] = event["args"]["name"];
  }
  EXPECT_EQ(names, (std::map<std::tuple<std::string, int>, std::string>{
                       {{"process_name", 0}, "rank 0 on a"},
                       {{"process_name", 1}, "rank 1 on b"},
                       {{"thread_name", 0}, "group default (gloo)"},
                       {{"thread_name", 1}, "group default (gloo)"}}));
}

TEST_F(JobTrace, AnArrowLeadsFromTheLastRankToThoseThatWaited) {
  const json trace = trace_of({dump_of({&first_}), dump_of({&second_}, "b")});
  const std::vector<json> from = events(trace, "s");
  const std::vector<json> to = events(trace, "f");
  ASSERT_EQ(from.size(), 1U);
  ASSERT_EQ(to.size(), 1U);
  EXPECT_EQ(from[0]["id"], to[0]["id"]);
  EXPECT_EQ(std::tuple(from[0]["pid"], from[0]["ts"]), std::tuple(1, 3000.0));
  EXPECT_EQ(std::tuple(to[0]["pid"], to[0]["ts"]), std::tuple(0, 4000.0));
}

TEST_F(JobTrace, WithoutAllRanksNobodyIsTheLast) {
  EXPECT_TRUE(events(trace_of({dump_of({&first_})}), "s").empty());
  const MadePage third = page(2, 3, Operation::all_reduce, 2 * ms, 5 * ms);
  const MadePage fourth = page(1, 3, Operation::all_reduce, 3 * ms, 5 * ms);
  EXPECT_TRUE(events(trace_of({dump_of({&third, &fourth})}), "s").empty());
}

TEST_F(JobTrace, ARankThatEndedBeforeDidNotWait) {
  const MadePage source = page(0, 2, Operation::broadcast, 1 * ms, 2 * ms);
  const MadePage receiver = page(1, 2, Operation::broadcast, 4 * ms, 5 * ms);
  EXPECT_TRUE(events(trace_of({dump_of({&source, &receiver})}), "s").empty());
}

// Not 158.9749999999999.
TEST_F(JobTrace, TimesAreExact) {
  first_.end(first_.enter(1, Operation::all_reduce, 2, 2'730'157 + ms), 2'730'157 + ms + 158'975);
  EXPECT_EQ(events(trace_of({dump_of({&first_})}), "X").back()["dur"], 158.975);
}

TEST_F(JobTrace, WhatHasNotEndedOnlyBegins) {
  first_.enter(1, Operation::all_reduce, 2, 6 * ms);
  const json trace = trace_of({dump_of({&first_, &second_})});
  const std::vector<json> open = events(trace, "B");
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open[0]["args"]["state"], "started");
  EXPECT_EQ(open[0]["ts"], 5000.0);
}

// The clock of host b is 10 ms ahead: the ranks really begin in the other order.
TEST_F(JobTrace, TimesOfHostsAreOfOneClock) {
  const agent::SharedClock leaders{7, 0, 0};
  const agent::SharedClock other{7, -10 * ms, 80'000};
  const json trace = trace_of({dump_of({&first_}, "a", leaders), dump_of({&second_}, "b", other)});
  EXPECT_EQ(trace["otherData"]["clock"], "one for all ranks");
  EXPECT_EQ(trace["otherData"]["clock_error_ns"], 80'000);
  EXPECT_EQ(trace["otherData"]["begins_unix_ns"], 0) << "not before 1970";
  const std::vector<json> complete = events(trace, "X");
  ASSERT_EQ(complete.size(), 2U);
  EXPECT_EQ(std::tuple(complete[0]["pid"], complete[0]["ts"]), std::tuple(1, 0.0));
  EXPECT_EQ(std::tuple(complete[1]["pid"], complete[1]["ts"]), std::tuple(0, 1000.0));
}

TEST_F(JobTrace, WithoutACommonClockTimesAreOfEachHost) {
  for (const agent::SharedClock& other : {agent::SharedClock{}, agent::SharedClock{8, -10 * ms, 1}}) {
    const json trace = trace_of({dump_of({&first_}, "a", {7, 0, 0}), dump_of({&second_}, "b", other)});
    EXPECT_EQ(trace["otherData"]["clock"], "each host's own");
    EXPECT_FALSE(trace["otherData"].contains("clock_error_ns"));
    EXPECT_EQ(events(trace, "X")[1]["ts"], 3000.0);
  }
  EXPECT_EQ(trace_of({dump_of({&first_}), dump_of({&second_})})["otherData"]["clock"], "one for all ranks")
      << "of one host";
}

// Each dump knows the clocks' difference as of its own time.
TEST_F(JobTrace, AnOperationOfTwoDumpsCountsOnceOnTheSharedClock) {
  const json trace =
      trace_of({dump_of({&first_}, "a", {7, 5 * ms, 100}), dump_of({&first_}, "a", {7, 5 * ms + 1, 100})});
  EXPECT_EQ(events(trace, "X").size(), 1U);
}

TEST_F(JobTrace, AFailureIsNamed) {
  first_.end(first_.enter(1, Operation::all_reduce, 2, 6 * ms), 7 * ms, false);
  EXPECT_EQ(events(trace_of({dump_of({&first_})}), "X").back()["args"]["state"], "failed");
}

TEST_F(JobTrace, OverlappingOperationsHaveTracksOfTheirOwn) {
  first_.enter(1, Operation::all_reduce, 2, 6 * ms);
  first_.enter(1, Operation::all_reduce, 3, 7 * ms);
  const std::vector<json> open = events(trace_of({dump_of({&first_})}), "B");
  ASSERT_EQ(open.size(), 2U);
  EXPECT_EQ(open[0]["tid"], 1);  // where the first one has ended
  EXPECT_EQ(open[1]["tid"], 2);
}

TEST_F(JobTrace, ALaterDumpShowsTheEnd) {
  page::Record& second = first_.enter(1, Operation::all_reduce, 2, 6 * ms);
  const std::string before = dump_of({&first_});
  first_.end(second, 9 * ms);
  for (const auto& dumps :
       {std::vector{before, dump_of({&first_})}, std::vector{dump_of({&first_}), before}}) {
    const json trace = trace_of(dumps);
    EXPECT_EQ(events(trace, "X").size(), 2U);
    EXPECT_TRUE(events(trace, "B").empty());
  }
}

TEST_F(JobTrace, RejectsWhatIsNoDump) {
  const std::string right = dump_of({&first_});
  const auto with = [&](const std::string& what, const std::string& by) {
    std::string wrong = right;
    return wrong.replace(wrong.find(what), what.size(), by);
  };
  for (const std::string& wrong :
       {std::string(), std::string("{}"), std::string("[1]"), right.substr(0, right.size() / 2),
        with("\"time_created_ns\": 1000000", "\"time_created_ns\": 1e300"),
        with("\"time_created_ns\": 1000000", "\"time_created_ns\": -1"),
        with("\"time_created_ns\": 1000000", "\"time_created_ns\": 18446744073709551615"),
        with("\"clock\": null", "\"clock\": 3"), with("\"clock\": null", R"("clock": {"error_ns": -1})"),
        with("\"unix_minus_steady_ns\": 0", "\"unix_minus_steady_ns\": -9223372036854775808"),
        with("\"host\": \"a\"", "\"host\": {}")}) {
    const auto node = operations_in(wrong, "x.json");
    ASSERT_FALSE(node) << wrong.substr(0, 200);
    EXPECT_TRUE(node.error().message().starts_with("x.json is no output of dlaunch dump --json: "));
  }
}

}  // namespace
}  // namespace dlaunch::launcher
