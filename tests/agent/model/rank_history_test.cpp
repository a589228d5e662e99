#include "agent/model/rank_history.h"

#include <gtest/gtest.h>

#include "tests/agent/model/made_page.h"

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

class RankHistoryTest : public ::testing::Test {
 protected:
  RankHistoryTest() {
    page_.add_group(1, "default");
    history_.begin_round(now_);
  }
  WorkerLook worker(int rank, Condition condition = Condition::runs) {
    WorkerLook look{rank, rank, 100 + rank, condition};
    look.record = parse_worker_page(page_.bytes(), page_.bytes());
    return look;
  }
  void look(const std::vector<WorkerLook>& workers) {
    now_ += seconds(2);
    history_.look(now_, workers);
  }
  void calls(int count) {
    for (int i = 0; i < count; ++i) {
      const std::int64_t at = now_.time_since_epoch().count() + i;
      page_.end(page_.enter(1, page::Operation::all_reduce, ++sequence_, at), at + 1);
    }
  }

  TimePoint now_{seconds(10)};
  std::uint64_t sequence_ = 0;
  MadePage page_{0, 1};
  RankHistory history_;
};

TEST_F(RankHistoryTest, EveryLookIsOneSampleOfEveryRank) {
  look({worker(0), worker(1)});
  calls(1);
  look({worker(0), worker(1, Condition::stopped)});
  look({});
  look({worker(1), worker(2)});
  EXPECT_EQ(history_.samples().at(0), "sc..");
  EXPECT_EQ(history_.samples().at(1), "st.c");
  EXPECT_EQ(history_.samples().at(2), "...c");
}

TEST_F(RankHistoryTest, OldSamplesAreDropped) {
  look({worker(0), worker(1)});
  for (std::size_t i = 0; i < RankHistory::most_samples; ++i) look({worker(0)});
  EXPECT_EQ(history_.samples().at(0).size(), RankHistory::most_samples);
  EXPECT_FALSE(history_.samples().contains(1)) << "it has run in none of these";
  look({worker(0), worker(2)});
  EXPECT_EQ(history_.samples().at(2).size(), RankHistory::most_samples);
}

TEST_F(RankHistoryTest, TheRateIsOfWholeOperations) {
  calls(3);
  look({worker(0)});
  EXPECT_EQ(history_.rate(0), 0) << "one look is too few";
  calls(10);
  look({worker(0)});
  EXPECT_EQ(history_.rate(0), 5) << "10 in 2 s";
  WorkerLook other = worker(0);
  other.pid = 999;
  look({other});
  EXPECT_EQ(history_.rate(0), 0) << "another process began to count anew";
  EXPECT_EQ(history_.rate(7), 0);
}

}  // namespace
}  // namespace dlaunch::agent
