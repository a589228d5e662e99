#include "launcher/commands/call_dump.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/agent/model/made_record.h"
#include "tests/agent/model/nanoseconds.h"

namespace dlaunch::launcher {
namespace {

using agent::MadePage;
using agent::record_of;
using agent::second;

TEST(CallDump, NamesCallsUnderWay) {
  MadePage page(0, 2);
  EXPECT_EQ(calls_text(record_of(page), 40 * second), "");
  page.set_worker(0, "trainer");
  page.call(1, "ps", "add", page::Call::succeeded, 1 * second).ended_ns = 2 * second;
  page.call(2, "ps", "train", page::Call::sent, 9 * second);
  page.call(1, "ps", "get", page::Call::running, 38 * second).is_served = 1;
  page::CallCounts& counts = page.raw().header.calls;
  counts.made = 2;
  counts.succeeded = 1;
  counts.latency_ns = 1 * second;
  counts.arrived = 1;
  counts.owned = 4;
  counts.bytes_sent = 123;
  EXPECT_EQ(
      calls_text(record_of(page), 40 * second),
      "\nremote calls of rank 0 (worker trainer): 2 made, 0 failed, 1 arrived; 123 bytes sent, 0 received; "
      "mean latency 1 s; references: 4 owned, 0 used, 0 pending\n"
      "  to worker ps: 'train', sent, 31 s\n"
      "  for worker ps: 'get', running, 2 s\n");
  const auto json = calls_json(record_of(page));
  EXPECT_EQ(json["worker"], "trainer");
  EXPECT_EQ(json["references"]["owned"], 4);
  EXPECT_EQ(json["calls"].size(), 3U);
  EXPECT_EQ(json["calls"][0]["time_ended_ns"], 2 * second);
  EXPECT_TRUE(json["calls"][1]["time_ended_ns"].is_null());
  EXPECT_EQ(json["calls"][2]["served"], true);
}

TEST(CallDump, OfManyItShowsSome) {
  MadePage page(0, 2);
  page.set_worker(0, "trainer");
  for (std::uint64_t i = 0; i < 100; ++i) page.call(i + 1, "ps", "add", page::Call::queued, 0);
  const std::string text = calls_text(record_of(page), second);
  EXPECT_TRUE(text.ends_with("'add', queued, 1 s\n  and 76 more\n")) << text;
}

}  // namespace
}  // namespace dlaunch::launcher
