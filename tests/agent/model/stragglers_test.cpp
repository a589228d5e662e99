#include "agent/model/stragglers.h"

#include <gtest/gtest.h>

#include <limits>

#include "agent/model/node_arrivals.h"
#include "tests/agent/model/made_record.h"
#include "tests/agent/model/nanoseconds.h"

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Four ranks of a group; rank 2 comes 80 ms after the others to each collective, every 100 ms.
class StragglersTest : public ::testing::Test {
 protected:
  StragglersTest() {
    for (int rank = 0; rank < 4; ++rank) pages_.emplace_back(rank, 4).add_group(1, "default");
    stragglers_.begin_round(now_, 4);
  }
  void run(int steps, std::int64_t late_ms, page::Operation operation = page::Operation::all_reduce) {
    for (int i = 0; i < steps; ++i) {
      ++step_;
      now_ += milliseconds(100);
      for (std::size_t rank = 0; rank < pages_.size(); ++rank) {
        const auto at = static_cast<std::int64_t>(step_) * 100 * ms +
                        (rank == 2 ? late_ms * ms : static_cast<std::int64_t>(rank) * ms);
        pages_[rank].end(pages_[rank].enter(1, operation, step_, at), at + ms);
      }
    }
  }
  void look() {
    std::vector<WorkerRecord> records;
    for (MadePage& page : pages_) records.push_back(record_of(page));
    stragglers_.add(now_, arrivals_.look(records, {}));
  }

  TimePoint now_{seconds(1000)};
  std::uint64_t step_ = 0;
  std::vector<MadePage> pages_;
  NodeArrivals arrivals_;
  Stragglers stragglers_{seconds(10)};
};

TEST_F(StragglersTest, ASlowRankIsNamedOnceInARound) {
  run(50, 80);
  look();
  EXPECT_FALSE(stragglers_.take_note(now_)) << "the window is not over";
  run(50, 80);
  look();
  const auto note = stragglers_.take_note(now_);
  ASSERT_TRUE(note);
  EXPECT_EQ(note->rank, 2);
  EXPECT_EQ(
      describe(*note),
      "rank 2 is slow: in the last 10 s it came last to 100 of 100 collectives of group default, and the "
      "others waited 7.7 s for it alone (77 %)");
  EXPECT_FALSE(stragglers_.take_note(now_));
  EXPECT_TRUE(stragglers_.worst(now_));
  EXPECT_EQ(stragglers_.ranks().at(2).came_last, 100U);
  EXPECT_EQ(stragglers_.ranks().at(2).waited.count() / ms, 236 * 100);
  EXPECT_EQ(stragglers_.groups().at("default").collectives, 100U);
  EXPECT_EQ(stragglers_.groups().at("default").spread, 100 * milliseconds(80));
  const std::string text = metrics(stragglers_);
  EXPECT_NE(text.find("\ndlaunch_rank_last_total{rank=\"2\"} 100\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\ndlaunch_rank_late_seconds_total{rank=\"2\"} 7.7"), std::string::npos) << text;
  EXPECT_NE(text.find("\ndlaunch_group_arrival_spread_seconds_total{group=\"default\"} 8.0"),
            std::string::npos)
      << text;
  stragglers_.begin_round(now_, 4);
  EXPECT_TRUE(stragglers_.ranks().empty());
}

TEST_F(StragglersTest, ItIsForgottenWhenItHasRecovered) {
  run(100, 80);
  look();
  EXPECT_TRUE(stragglers_.worst(now_));
  for (int i = 0; i < 11; ++i) {
    run(10, 1);
    look();
  }
  EXPECT_FALSE(stragglers_.worst(now_));
}

TEST_F(StragglersTest, AFewLongWaitsAreNoStraggler) {
  run(100, 1);
  run(4, 3000);
  look();
  EXPECT_FALSE(stragglers_.worst(now_));
}

TEST_F(StragglersTest, ItIsJudgedAFewTimesAWindowHoweverManyNodesReport) {
  run(100, 80);
  EXPECT_FALSE(stragglers_.recent_worst(now_));
  look();
  EXPECT_TRUE(stragglers_.worst(now_));
  EXPECT_FALSE(stragglers_.recent_worst(now_ + milliseconds(160))) << "it was judged a moment ago";
  EXPECT_TRUE(stragglers_.recent_worst(now_ + milliseconds(170)));
}

TEST_F(StragglersTest, TheWindowEndsAlsoIfNoReportComes) {
  run(100, 80);
  look();
  EXPECT_TRUE(stragglers_.worst(now_ + seconds(10)));
  EXPECT_FALSE(stragglers_.worst(now_ + seconds(11)));
}

TEST_F(StragglersTest, AFewSamplesAreNoStragglerHoweverManyTheyStandFor) {
  run(100, 1);
  SampledGroup group{99, "tp", 2, 1, 64, {}};
  for (std::uint64_t sequence = 1; sequence <= 4; ++sequence) {
    for (const int rank : {0, 3}) {
      ArrivalSample sample{sequence, rank, 4711};
      sample.shortest = sample.longest = sample.sum = rank == 0 ? seconds(1) : Duration(0);
      sample.next = Duration(-1);
      group.samples = {sample};
      stragglers_.add(now_, {{}, {group}});
    }
  }
  EXPECT_EQ(stragglers_.ranks().at(3).came_last, 256U);
  EXPECT_EQ(stragglers_.ranks().at(3).late, seconds(256));
  EXPECT_FALSE(stragglers_.worst(now_));
}

// A peer may send anything.
TEST_F(StragglersTest, ImpossibleReportsDoNoHarm) {
  constexpr auto greatest = std::numeric_limits<std::uint64_t>::max();
  ComparedGroup group{"a\nb", greatest, Duration::max(), {}};
  for (const int rank : {-1, 1, 4})
    group.late.push_back({rank, 1, greatest, Duration::max(), Duration::min()});
  for (int i = 0; i < 3; ++i) stragglers_.add(now_, {{group}, {}});
  ASSERT_EQ(stragglers_.ranks().size(), 1U) << "the job has no other of these";
  EXPECT_GT(stragglers_.ranks().at(1).late, Duration(0));
  EXPECT_EQ(stragglers_.ranks().at(1).waited, Duration(0));
  EXPECT_GT(stragglers_.groups().begin()->second.spread, Duration(0));
  ASSERT_TRUE(stragglers_.worst(now_ + seconds(10)));
  EXPECT_EQ(stragglers_.worst(now_ + seconds(10))->late, seconds(10)) << "at most the window";
  EXPECT_EQ(describe(*stragglers_.worst(now_ + seconds(10))).find('\n'), std::string::npos);
}

}  // namespace
}  // namespace dlaunch::agent
