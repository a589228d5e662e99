#include "launcher/report/report.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "launcher/report/clock_time.h"
#include "launcher/report/report_file.h"

namespace dlaunch::launcher {
namespace {

using std::chrono::milliseconds;

agent::Failure failed(int rank, int code) {
  agent::Failure failure;
  failure.kind = agent::FailureKind::worker;
  failure.rank = rank;
  failure.local_rank = rank % 2;
  failure.node_rank = rank / 2;
  failure.host = "host" + std::to_string(rank / 2);
  failure.pid = 100 + rank;
  failure.status = {agent::ExitStatus::How::exited, code, false};
  return failure;
}

// Rank 3 of four on two nodes failed, after a restart; as node 0 reports it.
JobReport report() {
  JobReport report;
  report.job.max_restarts = 1;
  report.outcome.failed = true;
  report.outcome.exit_code = 5;
  report.outcome.restarts_used = 1;
  report.outcome.cause = failed(3, 5);
  report.outcome.failure_count = 1;
  return report;
}

TEST(Report, LastParagraphIsACompleteLine) {
  JobReport one = report();
  one.outcome.cause.tail = "one\ntwo";
  EXPECT_EQ(end_report(one), (std::vector<std::string>{
                                 "the last lines that rank 3 wrote to stderr:\n  | one\n  | two",
                                 "failed: rank 3 (local rank 1, node 1, host host1, pid 103) exited with "
                                 "code 5; 1 of 1 restarts were used"}));
  EXPECT_TRUE(end_report(JobReport{}).empty());
  one.shows_last_lines = true;
  EXPECT_EQ(end_report(one).size(), 1U) << "they stand on the screen already";
}

TEST(Report, FlightRecordsAreNamedByTheNodeThatHasThem) {
  JobReport one = report();
  one.node.node_rank = 7;
  one.flight_folder = "/tmp/dlaunch-flight-x";
  const std::string named =
      "PyTorch's flight records of this node are in /tmp/dlaunch-flight-x; compare them with: torchfrtrace "
      "/tmp/dlaunch-flight-x";
  EXPECT_EQ(end_report(one).front(), named);
  one.outcome.cause.kind = agent::FailureKind::signal;
  EXPECT_EQ(end_report(one).front(), named);
  EXPECT_EQ(end_report(one).size(), 2U);
  one.flight_folder = "";
  EXPECT_EQ(end_report(one).size(), 1U);
}

TEST(Report, WhatToTryFollowsTheSummaryWhereTheCauseIsDetailed) {
  JobReport one = report();
  one.outcome.cause.remedy = "more\x1b[2J memory";
  const std::string summary = end_report(one).back();
  EXPECT_EQ(summary, first_line_of(summary) + "\n  try: more memory");
  EXPECT_TRUE(first_line_of(summary).ends_with("; 1 of 1 restarts were used"));
  EXPECT_EQ(remedy_in(summary), "more memory");
  EXPECT_NE(report_json(one).find(R"("try": "more)"), std::string::npos);
  one.node.node_rank = 7;
  EXPECT_EQ(remedy_in(end_report(one).back()), "") << "another node";
  one.outcome.cause.kind = agent::FailureKind::node_lost;
  one.outcome.cause.node_rank = 0;
  EXPECT_EQ(remedy_in(end_report(one).back()), "more memory") << "node 0 cannot report it";
  one.outcome.cause.kind = agent::FailureKind::signal;
  one.node.node_rank = 0;
  EXPECT_EQ(remedy_in(end_report(one).back()), "") << "the user stopped it";
}

TEST(Report, TheCauseComesFirstThenTheOthersThenTheRestarts) {
  JobReport one = report();
  one.outcome.others = {failed(0, 1)};
  one.outcome.others[0].after = milliseconds(120);
  one.outcome.others[0].while_stopping = true;
  one.outcome.failure_count = 2;
  one.outcome.restarts = {{1, std::chrono::seconds(12), failed(2, 7)}};
  const auto told = end_report(one);
  ASSERT_EQ(told.size(), 4U);
  EXPECT_TRUE(told[0].starts_with("root cause: rank 3 ")) << told[0];
  EXPECT_EQ(told[1],
            "1 other failure in this round:\n  120 ms later: rank 0 (local rank 0, node 0, host host0, pid "
            "100) exited with code 1, while it was being stopped");
  EXPECT_EQ(
      told[2],
      "earlier restarts:\n  1, after 12 s: rank 2 (local rank 0, node 1, host host1, pid 102) exited with "
      "code 7");
}

TEST(Report, OtherNodesSayOneLine) {
  JobReport one = report();
  one.outcome.cause.tail = "words";
  one.node.node_rank = 7;
  EXPECT_EQ(end_report(one).size(), 1U);
  one.node.node_rank = 1;
  EXPECT_EQ(end_report(one).size(), 2U) << "the cause was here";
}

TEST(Report, TracebackIsShownIfStderrHasNone) {
  JobReport one = report();
  one.outcome.cause.traceback = "Traceback\n  File x\nValueError: y";
  one.outcome.cause.tail = "something else";
  one.outcome.cause.log_file = "/l/stderr.log";
  EXPECT_EQ(end_report(one)[0],
            "the last lines of rank 3's traceback:\n  | Traceback\n  |   File x\n  | ValueError: y");
  EXPECT_TRUE(end_report(one)[1].starts_with("the last lines that rank 3 wrote to stderr:"));
  EXPECT_EQ(end_report(one)[2], "the output of rank 3 is in /l/stderr.log on host host1")
      << "a line of dlaunch's own";
  one.outcome.cause.tail = "Traceback\n  File x\nValueError: y";
  EXPECT_TRUE(end_report(one)[0].starts_with("the last lines that rank 3 wrote to stderr:"));
}

TEST(Report, TheErrorFileIsNamedBesideTheLogFile) {
  JobReport one = report();
  one.outcome.cause.log_file = "/l/0/stderr.log";
  EXPECT_EQ(end_report(one).size(), 2U) << "it left none";
  EXPECT_EQ(report_json(one).find("error_file"), std::string::npos);
  one.outcome.cause.exception = "E: x";
  EXPECT_EQ(end_report(one)[1], "the error file of rank 3 is /l/0/error.json on host host1");
  EXPECT_NE(report_json(one).find(R"("error_file": "/l/0/error.json")"), std::string::npos);
  one.error_file = "/own.json";
  EXPECT_EQ(end_report(one)[1], "the error file of rank 3 is /own.json on host host1");
  EXPECT_NE(report_json(one).find(R"("error_file": "/own.json")"), std::string::npos);
}

TEST(Report, WhenItFailedIsSaidOnce) {
  JobReport one = report();
  one.outcome.cause.unix_ms = 1'700'000'000'000;
  const std::string at = clock_time(one.outcome.cause.unix_ms);
  EXPECT_TRUE(end_report(one).back().ends_with("; 1 of 1 restarts were used; it failed at " + at));
  one.outcome.others = {failed(0, 1)};
  one.outcome.failure_count = 2;
  EXPECT_TRUE(end_report(one).front().ends_with(", at " + at));
  EXPECT_TRUE(end_report(one).back().ends_with("; 1 of 1 restarts were used"));
  one.node.node_rank = 7;
  EXPECT_TRUE(end_report(one).back().ends_with("it failed at " + at)) << "the only line here";
}

TEST(Report, ManyOthersAreCounted) {
  JobReport one = report();
  for (int i = 0; i < agent::Outcome::max_others; ++i) one.outcome.others.push_back(failed(i, 1));
  one.outcome.failure_count = 1001;
  one.outcome.tallies = {{"exited with code 1", 900}, {"was killed", 60}};
  const std::string told = end_report(one)[1];
  EXPECT_TRUE(told.starts_with("1000 other failures in this round:"));
  EXPECT_TRUE(told.ends_with("\n  and 995 more; in all 900 exited with code 1, 60 was killed, 40 others"))
      << told;
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 6);
}

TEST(Report, OutputOfWorkersIsQuoted) {
  JobReport one = report();
  one.outcome.cause.exception = "E: \x1b[2Jx";
  one.outcome.cause.tail = "\x1b[31m" + std::string(10'000, 'x') + "\xff";
  for (const std::string& paragraph : end_report(one)) {
    EXPECT_EQ(paragraph.find('\x1b'), std::string::npos);
    EXPECT_LT(paragraph.size(), 700U);
  }
}

TEST(Report, FileIsTextForAnyWorkerOutput) {
  JobReport one = report();
  one.outcome.cause.tail = "\xff\x00\x1b";
  one.world.members = {{0, 2, 0, "host0", 7, 0}, {1, 2, 2, "host1", 8, 1}};
  const std::string json = report_json(one);
  EXPECT_TRUE(json.ends_with("}\n"));
  EXPECT_NE(json.find(R"("first_rank": 2)"), std::string::npos);
  EXPECT_EQ(json.find('\xff'), std::string::npos);
}

// Of a hang the first of them is the cause itself.
TEST(Report, PositionsOfRanksAreReportedOnce) {
  JobReport one = report();
  one.outcome.rank_positions = {"the first", "the second"};
  const auto told = [&one] {
    std::string text;
    for (const std::string& part : end_report(one)) text += part + "\n\n";
    return text;
  };
  EXPECT_NE(told().find("last known position of the ranks:\n  the first\n  the second\n\n"),
            std::string::npos)
      << told();
  one.outcome.cause.kind = agent::FailureKind::hang;
  EXPECT_NE(told().find("last known position of the ranks:\n  the second\n\n"), std::string::npos) << told();
  EXPECT_EQ(told().find("the first"), std::string::npos) << told();
  one.outcome.rank_positions.pop_back();
  EXPECT_EQ(told().find("last known position of the ranks"), std::string::npos) << told();
}

}  // namespace
}  // namespace dlaunch::launcher
