#include "launcher/commands/flight_record.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/agent/model/made_record.h"

namespace dlaunch::launcher {
namespace {

using agent::MadePage;
using agent::record_of;
using agent::WorkerRecord;
using page::Operation;

TEST(FlightRecord, HasTheFieldsOfPyTorch) {
  MadePage page(1, 2);
  page.add_group(1, "default");
  page.end(page.enter(1, Operation::all_reduce, 1, 1000), 2000);
  page.enter(1, Operation::all_reduce, 2, 3000);
  const auto flight = flight_of(record_of(page));
  EXPECT_EQ(flight["rank"], 1);
  EXPECT_EQ(flight["world_size"], 2);
  EXPECT_EQ(flight["pg_config"]["default"]["name"], "default");
  EXPECT_EQ(flight["pg_status"]["1"]["last_enqueued_collective"], 2);
  EXPECT_EQ(flight["pg_status"]["1"]["last_completed_collective"], 1);
  ASSERT_EQ(flight["entries"].size(), 2U);
  EXPECT_EQ(flight["entries"][0]["state"], "completed");
  EXPECT_EQ(flight["entries"][1]["state"], "started");
  EXPECT_EQ(flight["entries"][1]["collective_seq_id"], 2);
  EXPECT_FALSE(flight["entries"][1].contains("duration_ms")) << "it has not ended";
}

TEST(FlightRecord, AnOperationIsScheduledUntilTheDeviceComesToIt) {
  MadePage page(0, 2);
  page.add_group(1, "default");
  page.end(page.enter(1, Operation::all_reduce, 1, 1000), 2000);
  page::Record& next = page.enter(1, Operation::all_reduce, 2, 3000);
  page::Record& message = page.enter(1, Operation::send, 1, 4000);
  const auto put = [&](page::Record::OnDevice where) {
    next.on_device = message.on_device = where;
    return flight_of(record_of(page));
  };
  auto flight = put(page::Record::queued);
  for (const std::size_t i : {1U, 2U}) {
    EXPECT_EQ(flight["entries"][i]["state"], "scheduled");
    EXPECT_TRUE(flight["entries"][i]["time_discovered_started_ns"].is_null());
  }
  EXPECT_EQ(flight["pg_status"]["1"]["last_started_collective"], 1);
  flight = put(page::Record::begun);
  for (const std::size_t i : {1U, 2U}) EXPECT_EQ(flight["entries"][i]["state"], "started");
  EXPECT_EQ(flight["pg_status"]["1"]["last_started_collective"], 2);
  // It failed, for example by its timeout.
  page.end(next, 5000, false);
  EXPECT_EQ(put(page::Record::queued)["entries"][1]["state"], "scheduled");
  page.end(next, 5000);
  EXPECT_EQ(put(page::Record::queued)["entries"][1]["state"], "completed");
}

TEST(FlightRecord, NamesTheDtypeAsPyTorchDoes) {
  constexpr std::uint8_t int8 = 0;
  constexpr std::uint8_t float8_e5m2 = 13;
  constexpr std::uint8_t of_a_later_version = 14;
  MadePage page(1, 2);
  page.add_group(1, "default");
  std::uint64_t sequence = 0;
  for (const std::uint8_t dtype : {int8, float8_e5m2, of_a_later_version}) {
    page.enter(1, Operation::all_reduce, ++sequence, 1000).dtype = dtype;
  }
  const auto entries = flight_of(record_of(page))["entries"];
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0]["input_dtypes"], nlohmann::ordered_json{"Char"});
  EXPECT_EQ(entries[1]["input_dtypes"], nlohmann::ordered_json{"Float8_e5m2"});
  EXPECT_EQ(entries[2]["input_dtypes"], nlohmann::ordered_json::array());
}

TEST(FlightRecord, ForTorchfrtraceOnlyCollectivesThatItKnows) {
  MadePage page(0, 2);
  page.add_group(1, "default");
  page.enter(1, Operation::monitored_barrier, 1, 1000);
  page.enter(1, Operation::all_gather_into_tensor, 2, 2000);
  const WorkerRecord record = record_of(page);
  EXPECT_EQ(flight_of(record)["entries"].size(), 2U);
  const auto entries = flight_for_torchfrtrace(record)["entries"];
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_TRUE(entries[0]["profiling_name"].get<std::string>().ends_with(":_all_gather_base"));
  EXPECT_EQ(entries[0]["input_sizes"].size(), 1U) << "torchfrtrace reads the first size";
}

}  // namespace
}  // namespace dlaunch::launcher
