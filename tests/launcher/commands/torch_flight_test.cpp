#include "launcher/commands/torch_flight.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace dlaunch::launcher {
namespace {

using agent::GroupProgress;
using Json = nlohmann::ordered_json;

constexpr std::int64_t created_ns = 1'795'655'259'000'000'000;

Json entry(const std::string& name, int number, bool retired, const std::string& state = "scheduled") {
  return {{"collective_seq_id", number},   {"is_p2p", false},     {"process_group", {"0", "default_pg"}},
          {"profiling_name", name},        {"retired", retired},  {"state", state},
          {"time_created_ns", created_ns}, {"input_sizes", {{4}}}};
}

// As PyTorch 2.15 writes it for gloo: the group's ranks are not named.
Json of_gloo(std::vector<Json> entries) {
  return {{"version", "2.10"},
          {"entries", entries},
          {"pg_config", {{"", {{"name", ""}, {"desc", ""}, {"ranks", "[0, 1]"}}}}},
          {"pg_status", {{"0", {{"last_completed_collective", "1"}}}}}};
}

TorchFlight read_flight(const Json& record, int rank = 1) {
  auto flight = read_torch_flight(record.dump(), {rank, 4, created_ns + 5'000'000'000});
  EXPECT_TRUE(flight.ok());
  return flight.ok() ? *flight : TorchFlight{};
}

TEST(TorchFlight, ARankOfGlooWaitsInTheFirstThatIsNotRetired) {
  const TorchFlight flight =
      read_flight(of_gloo({entry("gloo:all_reduce", 1, true), entry("gloo:broadcast", 2, false),
                           entry("gloo:all_reduce", 3, false)}));
  ASSERT_EQ(flight.groups.size(), 1U);
  const GroupProgress& group = flight.groups[0];
  EXPECT_EQ((std::pair{group.name, group.size}), (std::pair{std::string("default_pg"), 4U}));
  ASSERT_EQ(group.here.size(), 1U);
  const agent::RankProgress& here = group.here[0];
  EXPECT_EQ((std::tuple{here.rank, here.done, here.entered, here.inside}),
            (std::tuple{1, std::uint64_t{1}, std::uint64_t{3}, true}));
  EXPECT_EQ(here.operation, page::Operation::broadcast);
  EXPECT_EQ(here.waited, std::chrono::seconds(5));
  EXPECT_TRUE(flight.waits);
}

TEST(TorchFlight, ARankThatWaitsForNothingIsBehindItsLast) {
  const TorchFlight flight =
      read_flight(of_gloo({entry("gloo:all_reduce", 1, true), entry("gloo:barrier", 2, true)}));
  EXPECT_EQ(flight.groups.at(0).here.at(0).done, 2U);
  EXPECT_FALSE(flight.groups.at(0).here.at(0).waits());
  EXPECT_FALSE(flight.waits);
  EXPECT_EQ(read_flight(of_gloo({})).operations, 0U);
}

// Made by hand from the documentation of the format: there is no GPU here.
TEST(TorchFlight, NcclAsDocumentedHasStatesAndTheRanksOfItsGroups) {
  Json record = of_gloo({entry("nccl:_all_gather_base", 7, true, "completed"),
                         entry("nccl:_reduce_scatter_base", 8, true, "started")});
  record["pg_config"] = {{"0", {{"name", "0"}, {"desc", "default_pg"}, {"ranks", "[0, 1, 2, 3]"}}},
                         {"5", {{"name", "5"}, {"desc", "tensor"}, {"ranks", "[1, 3]"}}}};
  Json other = entry("nccl:all_reduce", 2, true, "completed");
  other["process_group"] = {"5", "tensor"};
  Json message = entry("nccl:send 1->3", 9, false);
  message["is_p2p"] = true;
  record["entries"].push_back(other);
  record["entries"].push_back(message);
  const TorchFlight flight = read_flight(record);
  ASSERT_EQ(flight.groups.size(), 2U);
  EXPECT_EQ(flight.groups[0].here[0].done, 7U) << "retired, but not completed: it has timed out";
  EXPECT_EQ(flight.groups[0].here[0].entered, 8U) << "a message is no collective";
  EXPECT_EQ(flight.groups[0].here[0].operation, page::Operation::reduce_scatter_tensor);
  EXPECT_EQ((std::pair{flight.groups[1].name, flight.groups[1].size}),
            (std::pair{std::string("tensor"), 2U}));
  EXPECT_EQ(flight.groups[1].ranks, (std::vector<page::Run>{{1, 2, 2}}));
}

TEST(TorchFlight, RanksAreNamedAsFarAsThereIsRoom) {
  Json record = of_gloo({entry("nccl:all_reduce", 1, false)});
  const auto ranks_of = [&](const std::string& ranks) {
    record["pg_config"] = {{"0", {{"name", "0"}, {"desc", "default_pg"}, {"ranks", ranks}}}};
    return read_flight(record).groups.at(0).ranks;
  };
  EXPECT_EQ(ranks_of("[0, 1, 2, 3]"), (std::vector<page::Run>{{0, 1, 4}}));
  EXPECT_EQ(ranks_of("[0, 4, 8, 9, 7]"), (std::vector<page::Run>{{0, 4, 3}, {9, 1, 1}, {7, 1, 1}}));
  EXPECT_EQ(ranks_of("[0,9,1,8,2,7,3,6,4,5,11,20,12,19,13,18,14]").size(), page::max_runs);
  EXPECT_EQ(ranks_of("[0, x]"), (std::vector<page::Run>{{0, 1, 4}})) << "as if they were not named";
}

TEST(TorchFlight, TheSameGroupIsTheSameOnAllRanks) {
  const Json record = of_gloo({entry("gloo:all_reduce", 1, false)});
  EXPECT_EQ(read_flight(record, 0).groups.at(0).identity, read_flight(record, 3).groups.at(0).identity);
  Json other = record;
  other["entries"][0]["process_group"][0] = "1";
  EXPECT_NE(read_flight(other, 0).groups.at(0).identity, read_flight(record, 0).groups.at(0).identity);
}

TEST(TorchFlight, WhatIsNoRecordIsAnError) {
  for (const char* text : {"", "[]", "nonsense", "{", "7"})
    EXPECT_FALSE(read_torch_flight(text, {}).ok()) << text;
}

TEST(TorchFlight, WhatHasAnotherTypeIsLeftOut) {
  Json record = of_gloo({entry("gloo:all_reduce", 1, false)});
  for (const char* name : {"collective_seq_id", "process_group", "retired", "state", "profiling_name",
                           "is_p2p", "time_created_ns"}) {
    for (const Json& value : {Json(nullptr), Json(-1), Json("x"), Json::array({1, 2, 3}), Json::object()}) {
      Json changed = record;
      changed["entries"][0][name] = value;
      EXPECT_TRUE(read_torch_flight(changed.dump(), {0, 2, 1}).ok());
      EXPECT_TRUE(torch_flight_file(changed.dump(), {0, 2, 1}).ok());
    }
  }
  for (const char* name : {"entries", "pg_config"}) {
    Json changed = record;
    changed[name] = 5;
    EXPECT_TRUE(read_torch_flight(changed.dump(), {0, 2, 1}).ok()) << name;
  }
}

TEST(TorchFlight, OfTwoRecordersTheOneThatWaitsIsTaken) {
  const TorchFlight waits = read_flight(of_gloo({entry("gloo:all_reduce", 1, false)}));
  const TorchFlight more =
      read_flight(of_gloo({entry("gloo:all_reduce", 1, true), entry("gloo:all_reduce", 2, true)}));
  EXPECT_TRUE(waits.says_more_than(more));
  EXPECT_FALSE(more.says_more_than(waits));
  EXPECT_TRUE(more.says_more_than(read_flight(of_gloo({entry("gloo:all_reduce", 1, true)}))));
}

// The real torchfrtrace reads one in process/idle_test.py.
TEST(TorchFlight, AFileHasTheGroupsOfItsOperations) {
  Json record = of_gloo({entry("gloo:all_reduce", 1, true)});
  Json unknown = entry("gloo:all_reduce", 1, true);
  unknown["process_group"] = {"1", "undefined"};
  record["entries"].push_back(unknown);
  const auto file = torch_flight_file(record.dump(), {0, 2, 1});
  ASSERT_TRUE(file.ok());
  EXPECT_NE(file->find("default_pg"), std::string::npos);
  EXPECT_NE(file->find("[0,1]"), std::string::npos);
  EXPECT_NE(file->find("frames"), std::string::npos);
  EXPECT_EQ(file->find("undefined"), std::string::npos) << "its ranks are not known";
}

}  // namespace
}  // namespace dlaunch::launcher
