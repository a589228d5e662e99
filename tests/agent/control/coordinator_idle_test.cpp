// A job whose workers record nothing and are idle: the note, the inspection, and what it finds.
#include <gtest/gtest.h>

#include "tests/agent/control/coordinator_fixture.h"

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;
using Lines = std::vector<std::string>;

class IdleTest : public CoordinatorTest {
 protected:
  IdleTest() {
    job_.hang_note = seconds(60);
    gather();
  }
  // Both nodes, of two ranks each, report that idle time.
  Lines report(Duration idle) {
    from(0, {0, idle, false, {}, {}, idle});
    Lines all = said();
    from(7, {0, idle, false, {}, {}, idle});
    for (std::string& line : said()) all.push_back(std::move(line));
    return all;
  }
  void from(MemberId member, Progress progress) { CoordinatorTest::from(member, std::move(progress)); }
  // The records of a node: rank 3 has not come to the fifth collective.
  Lines inspected(MemberId member, int first_rank) {
    Inspected found{0, {{99, "default_pg", 4, {}, {}}}};
    for (int rank = first_rank; rank < first_rank + 2; ++rank) {
      RankProgress progress;
      progress.rank = rank;
      progress.done = 4;
      progress.entered = rank == 3 ? 4 : 5;
      progress.inside = rank != 3;
      progress.operation = page::Operation::all_reduce;
      progress.waited = rank == 3 ? Duration(0) : Duration(seconds(61));
      found.groups[0].here.push_back(progress);
    }
    CoordinatorTest::from(member, std::move(found));
    return said();
  }
  Lines stop() {
    Failure stopped;
    stopped.kind = FailureKind::signal;
    stopped.status = {ExitStatus::How::signaled, SIGTERM, false};
    CoordinatorTest::from(0, Leave{stopped});
    return said();
  }
  Lines said() const {
    Lines found;
    for (const auto& action : last_) {
      if (const auto* message = std::get_if<LogMessage>(&action)) found.push_back(message->text);
    }
    return found;
  }
  static std::string note(const std::string& how_long) {
    return "the job may hang, or waits for something outside: no worker has used the CPU or printed anything "
           "for " +
           how_long;
  }
  static Lines with_advice(const std::string& how_long) {
    return {note(how_long), "all stacks: dlaunch dump j on each host"};
  }
};

TEST_F(IdleTest, IsNotedAndTheJobGoesOn) {
  EXPECT_EQ(report(seconds(59)), Lines{});
  EXPECT_EQ(report(seconds(60)), with_advice("1 min 0 s"));
  EXPECT_TRUE(did<Event>());
  EXPECT_EQ(report(seconds(65)), Lines{});
  EXPECT_EQ(report(seconds(300)), with_advice("5 min 0 s"));
  EXPECT_EQ(coordinator_->state(), Coordinator::State::running);
}

TEST_F(IdleTest, OneNodeThatWorksIsEnoughForNone) {
  from(0, {0, seconds(90), false, {}, {}, seconds(90)});
  EXPECT_TRUE(said().empty()) << "the other node has not reported";
  from(7, {0, seconds(90), false, {}, {}, Duration(0)});
  EXPECT_TRUE(said().empty());
}

TEST_F(IdleTest, ThePositionsFollowWhenAllNodesHaveAnswered) {
  EXPECT_TRUE(inspected(0, 0).empty()) << "nobody asked";
  report(seconds(60));
  EXPECT_EQ(sent<InspectionRequest>(),
            (std::vector<std::pair<MemberId, InspectionRequest>>{{0, {0}}, {7, {0}}}));
  EXPECT_TRUE(inspected(0, 0).empty());
  EXPECT_EQ(inspected(7, 2), Lines{"by PyTorch's records rank 3 (local rank 1, node 1, host host1) never "
                                   "entered all_reduce #5 of group default_pg; the other 3 "
                                   "have waited 1 min 1 s"});
  EXPECT_TRUE(inspected(7, 2).empty()) << "it was reported";
}

TEST_F(IdleTest, AJobThatWorksAgainHasNoPositions) {
  report(seconds(60));
  inspected(0, 0);
  inspected(7, 2);
  EXPECT_EQ(coordinator_->view(now_).collectives.size(), 1U);
  report(Duration(0));
  EXPECT_TRUE(coordinator_->view(now_).collectives.empty());
}

TEST_F(IdleTest, BothAreSaidWhenTheUserStopsTheJob) {
  report(seconds(60));
  inspected(0, 0);
  inspected(7, 2);
  report(seconds(90));
  const Lines lines = stop();
  ASSERT_GE(lines.size(), 2U);
  EXPECT_EQ(lines[0], note("1 min 30 s"));
  EXPECT_EQ(lines[1],
            "by PyTorch's records rank 3 (local rank 1, node 1, host host1) never entered all_reduce #5 of "
            "group default_pg; the other 3 have "
            "waited 1 min 31 s");
}

TEST_F(IdleTest, AStopWithinTheNotesTimeIsNotExplained) {
  report(seconds(20));
  for (const std::string& line : stop()) EXPECT_EQ(line.find("may hang"), std::string::npos) << line;
}

}  // namespace
}  // namespace dlaunch::agent
