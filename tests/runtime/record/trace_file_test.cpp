// The trace file, which is complete JSON at any time.

#include "runtime/record/trace_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/base/deadline.h"
#include "tests/runtime/api/error_strings.h"

namespace dlaunch::internal {
namespace {

TEST(TraceFile, IsValidAtAnyTimeAndHasOpenOperations) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("dlaunch_trace_open_test." + std::to_string(getpid()));
  const auto text = [&] {
    std::stringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  };
  const auto event = [](std::uint64_t id, std::int64_t time_ns) {
    return ProfilingEvent{.kind = ProfilingEvent::Kind::begin,
                          .id = id,
                          .name = "all_reduce",
                          .group = "pair",
                          .rank = 1,
                          .sequence = id,
                          .bytes = 8,
                          .time_ns = time_ns,
                          .success = true};
  };
  {
    TraceFile trace(path);
    EXPECT_EQ(text(), "[]\n");
    const std::int64_t before =
        std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
    trace.begin(event(1, steady_ns()), 5);
    const std::string begun = text();
    EXPECT_TRUE(begun.starts_with(
        "[\n{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 5, \"args\": {\"name\": \"rank 5 on "));
    EXPECT_TRUE(test::contains(
        begun, "{\"ph\": \"B\", \"name\": \"all_reduce\", \"cat\": \"dlaunch\", \"pid\": 5, \"tid\": 0, "));
    EXPECT_TRUE(begun.ends_with("\"finished\": false}}\n]\n")) << begun;
    const std::string ts = "\"ts\": ";
    const double at_us = std::stod(begun.substr(begun.find(ts) + ts.size()));
    EXPECT_NEAR(at_us, static_cast<double>(before) / 1000, 60e6) << "since 1970";

    trace.begin(event(2, steady_ns()), 5);
    const std::int64_t now = steady_ns();
    trace.end(event(1, now), 5, now - 1000);
    const std::string ended = text();
    EXPECT_TRUE(test::contains(ended, "\"success\": true}},\n{\"ph\": \"B\""))
        << "what is open stays at the end";
    EXPECT_TRUE(ended.ends_with("\"sequence\": 2, \"bytes\": 8, \"finished\": false}}\n]\n")) << ended;
    EXPECT_EQ(ended.find("\"sequence\": 1, \"bytes\": 8, \"finished\""), std::string::npos);
    trace.end(event(2, now), 5, now);
  }
  EXPECT_EQ(text().find("\"B\""), std::string::npos);
  EXPECT_TRUE(text().ends_with("\"success\": true}}\n]\n")) << text();
  std::filesystem::remove(path);
}

TEST(TraceFile, TimesAreThoseOfTheJobsClock) {
  const auto base = TraceFile::clock_base("1700000000000000123,80000");
  EXPECT_EQ(base.unix_minus_steady_ns, 1'700'000'000'000'000'123);
  EXPECT_EQ(base.about, "the job's clock, within 81 us");
  const std::int64_t own =
      std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count() - steady_ns();
  for (const char* text : {"", ",", "1", "1,", "1,2,3", "x,1", "-1,1", "1,-1", "9223372036854775807,1"}) {
    const auto unknown = TraceFile::clock_base(text);
    EXPECT_NEAR(static_cast<double>(unknown.unix_minus_steady_ns), static_cast<double>(own), 60e9) << text;
    EXPECT_EQ(unknown.about, "") << text;
  }
  EXPECT_EQ(TraceFile::clock_base(std::nullopt).about, "");
}

class TraceOf : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  static ProfilingEvent event(std::uint64_t id, const char* name = "send", const char* group = "pair") {
    return {.kind = ProfilingEvent::Kind::begin,
            .id = id,
            .name = name,
            .group = group,
            .rank = 1,
            .sequence = id,
            .bytes = 8,
            .time_ns = steady_ns(),
            .success = true};
  }
  // The file as a reader finds it now; it throws if that is not JSON.
  nlohmann::json entries() const {
    std::ifstream file(path_);
    return nlohmann::json::parse(file);
  }
  std::ptrdiff_t count(const std::string& phase) const {
    const nlohmann::json all = entries();
    return std::ranges::count_if(all, [&](const auto& entry) { return entry.at("ph") == phase; });
  }

  const std::string path_ =
      std::filesystem::temp_directory_path() / ("dlaunch_trace_file_test." + std::to_string(getpid()));
};

TEST_F(TraceOf, ManyOperationsShowsTheFirstOfThoseThatRun) {
  TraceFile trace(path_);
  for (std::uint64_t id = 1; id <= 100; ++id) {
    trace.begin(event(id), 0);
    ASSERT_EQ(count("B"), std::min<std::ptrdiff_t>(64, static_cast<std::ptrdiff_t>(id)));
  }
  // Its end is written though its beginning was not shown; the file may become shorter.
  for (std::uint64_t id = 100; id > 0; --id) {
    const std::int64_t began = steady_ns();
    trace.end(event(id), 0, began);
    ASSERT_EQ(count("X"), static_cast<std::ptrdiff_t>(101 - id));
    ASSERT_EQ(count("B"), std::min<std::ptrdiff_t>(64, static_cast<std::ptrdiff_t>(id) - 1));
  }
}

TEST_F(TraceOf, EachRankAndGroupHasARowOfItsOwn) {
  TraceFile trace(path_);
  trace.end(event(1, "send", "dp"), 0, 0);
  trace.end(event(2, "send", "tp"), 0, 0);
  trace.end(event(3, "send", "dp"), 5, 0);
  trace.end(event(4, "send", "dp"), 0, 0);
  std::vector<std::pair<int, int>> places;
  std::vector<std::string> names;
  for (const auto& entry : entries()) {
    if (entry.at("ph") == "X") places.emplace_back(entry.at("pid"), entry.at("tid"));
    if (entry.at("name") == "thread_name") names.push_back(entry.at("args").at("name"));
  }
  EXPECT_EQ(places, (std::vector<std::pair<int, int>>{{0, 0}, {0, 1}, {5, 2}, {0, 0}}));
  EXPECT_EQ(names, (std::vector<std::string>{"group dp", "group tp", "group dp"}));
}

TEST_F(TraceOf, AnOperationHasItsLengthInMicroseconds) {
  TraceFile trace(path_);
  ProfilingEvent ended = event(1);
  ended.time_ns = 2'000'001'500;
  trace.end(ended, 0, 2'000'000'499);
  const nlohmann::json last = entries().back();
  EXPECT_EQ(last.at("dur"), 1.001);
  EXPECT_EQ(last.at("args").at("sequence"), 1);
  EXPECT_EQ(last.at("args").at("success"), true);
}

TEST_F(TraceOf, AnyBytesOfANameAreText) {
  TraceFile trace(path_);
  const char* const names[] = {"\xc0\xaf",     "\xf5\x80\x80\x80", "\xed\xa0\x80",
                               "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80",
                               "\\\"\t\x01",   "\xe2\x82",         "\x7f\xc3\xa4\xf4\x8f\xbf\xbf"};
  std::uint64_t id = 0;
  for (const char* const name : names) {
    trace.end(event(++id, name, name), 0, 0);
    const nlohmann::json last = entries().back();
    // What is UTF-8 stays as it is.
    const std::string text = last.at("name");
    const bool is_valid = text.find("\xef\xbf\xbd") == std::string::npos;
    EXPECT_EQ(is_valid, text == name) << id;
  }
  EXPECT_EQ(entries().back().at("name"), "\x7f\xc3\xa4\xf4\x8f\xbf\xbf");
}

TEST_F(TraceOf, AnEarlierFileIsReplaced) {
  std::ofstream(path_) << std::string(100'000, 'x');
  const TraceFile trace(path_);
  EXPECT_TRUE(entries().empty());
}

TEST_F(TraceOf, APathThatCannotBeWrittenIsAnError) {
  EXPECT_EQ(test::error_of([] { const TraceFile trace("/nonexistent/trace"); }),
            "the trace cannot be written to /nonexistent/trace: No such file or directory");
}

// A disk that is full loses entries, and not the program.
TEST_F(TraceOf, AFullDiskIsNoError) {
  TraceFile trace("/dev/full");
  for (std::uint64_t id = 1; id <= 1000; ++id) {
    trace.begin(event(id), 0);
    const std::int64_t began = steady_ns();
    trace.end(event(id), 0, began);
  }
}

}  // namespace
}  // namespace dlaunch::internal
