// Stragglers of a simulated job: ranks on many nodes, whose clocks differ, compute and meet in collectives.
// Each node looks at its ranks at times of its own, and reports.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "agent/model/node_arrivals.h"
#include "agent/model/stragglers.h"
#include "tests/agent/model/nanoseconds.h"

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration window = seconds(60);

struct Setting {
  int nodes = 2;
  int ranks_of_node = 1;
  std::int64_t step_ns = 100 * ms;  // one rank computes for so long between two collectives
  int slow_rank = -1;               // needs five times as long; -1: none
  unsigned slow_every = 1;          // before each so many collectives
  double lost = 0;                  // this share of the reports
  std::int64_t early_ns = 0;  // so much earlier a collective ends on the last node, which computes longer
  bool has_clock = true;
  unsigned seed = 1;
};

class Job {
 public:
  explicit Job(const Setting& setting) : setting_(setting), random_(setting.seed) {
    stragglers_.begin_round(TimePoint{}, ranks());
    now_ns_.assign(static_cast<std::size_t>(ranks()), 0);
    for (int node = 0; node < setting.nodes; ++node) {
      Node& one = nodes_.emplace_back();
      one.clock_ns = draw(1'000'000) * 1'000'000'000;
      one.next_look_ns = draw(2000) * ms;
      for (int i = 0; i < setting.ranks_of_node; ++i) {
        WorkerRecord record;
        record.pid = 1000 + i;
        record.rank = node * setting.ranks_of_node + i;
        record.groups.push_back(
            {1, 77, "default", "gloo", record.rank, static_cast<std::uint32_t>(ranks()), {}});
        one.records.push_back(std::move(record));
      }
    }
  }

  // Until then; collectives that the ranks are in go on.
  void run_until(Duration end) {
    while (true) {
      const std::int64_t last = arrive();
      const std::int64_t moves = 50'000 + draw(100'000);
      while (look_before(std::min(last + moves, end.count()))) {
      }
      if (last + moves >= end.count()) return;
      finish(last + moves);
    }
  }
  void silence(int node) { nodes_.at(static_cast<std::size_t>(node)).is_silent = true; }
  void set_slow_rank(int rank) { setting_.slow_rank = rank; }

  [[nodiscard]] int ranks() const { return setting_.nodes * setting_.ranks_of_node; }
  [[nodiscard]] TimePoint now() const { return now_; }
  [[nodiscard]] const Stragglers& stragglers() const { return stragglers_; }
  [[nodiscard]] std::optional<Straggler> worst() const { return stragglers_.worst(now_); }
  [[nodiscard]] double late_s() const { return static_cast<double>(late_ns_) / 1e9; }
  [[nodiscard]] std::size_t most_samples() const { return most_samples_; }

 private:
  struct Node {
    std::int64_t clock_ns = 0;  // its steady clock minus the simulation's
    std::int64_t next_look_ns = 0;
    bool is_silent = false;
    std::vector<WorkerRecord> records;
    NodeArrivals arrivals;
  };

  std::int64_t draw(std::int64_t below) {
    return std::uniform_int_distribution<std::int64_t>(0, below - 1)(random_);
  }
  Node& node_of(int rank) { return nodes_.at(static_cast<std::size_t>(rank / setting_.ranks_of_node)); }
  [[nodiscard]] bool is_early(int rank) const { return rank >= ranks() - setting_.ranks_of_node; }
  WorkerRecord& record_of(int rank) {
    return node_of(rank).records.at(static_cast<std::size_t>(rank % setting_.ranks_of_node));
  }

  // All ranks enter the next collective. Returns when the last one has.
  std::int64_t arrive() {
    ++sequence_;
    std::int64_t last = 0;
    std::int64_t before = 0;
    for (int rank = 0; rank < ranks(); ++rank) {
      const bool is_slow = rank == setting_.slow_rank && sequence_ % setting_.slow_every == 0;
      std::int64_t& now = now_ns_[static_cast<std::size_t>(rank)];
      if (is_early(rank)) now += setting_.early_ns;
      now += setting_.step_ns * (is_slow ? 5 : 1) + draw(std::max<std::int64_t>(1, setting_.step_ns / 20));
      WorkerRecord& record = record_of(rank);
      WorkerRecord::Entry entry;
      entry.number = entry.sequence = sequence_;
      entry.created_ns = now + node_of(rank).clock_ns;
      entry.group = 1;
      entry.operation = page::Operation::all_reduce;
      record.entries.push_back(entry);
      if (record.entries.size() > page::max_records)
        record.entries.erase(record.entries.begin(), record.entries.begin() + page::max_records / 2);
      before = std::max(before, std::min(last, now));
      last = std::max(last, now);
    }
    late_ns_ += last - before;
    return last;
  }
  void finish(std::int64_t end) {
    for (int rank = 0; rank < ranks(); ++rank) {
      std::int64_t& now = now_ns_[static_cast<std::size_t>(rank)];
      now = end + draw(50'000) + (is_early(rank) ? 0 : setting_.early_ns);
      WorkerRecord::Entry& entry = record_of(rank).entries.back();
      entry.ended_ns = now + node_of(rank).clock_ns;
      entry.state = page::Record::completed;
    }
  }
  // The next look, if it is before that time.
  bool look_before(std::int64_t time_ns) {
    Node& node = *std::ranges::min_element(nodes_, {}, &Node::next_look_ns);
    if (node.next_look_ns > time_ns) return false;
    now_ = TimePoint{Duration(node.next_look_ns)};
    node.next_look_ns += Stragglers::look_period(window).count();
    SharedClock clock{setting_.has_clock ? 5 : 0,
                      -node.clock_ns + 1'700'000'000'000'000'000 + draw(ms) - ms / 2, ms};
    const Arrivals arrivals = node.arrivals.look(node.records, clock);
    std::size_t samples = 0;
    for (const SampledGroup& group : arrivals.sampled) samples += group.samples.size();
    most_samples_ = std::max(most_samples_, samples);
    const bool is_lost = static_cast<double>(draw(1000)) < 1000 * setting_.lost;
    if (!is_lost && !node.is_silent) stragglers_.add(now_, arrivals);
    return true;
  }

  Setting setting_;
  std::mt19937_64 random_;
  std::vector<Node> nodes_;
  std::vector<std::int64_t> now_ns_;  // of each rank
  std::uint64_t sequence_ = 0;
  std::int64_t late_ns_ = 0;      // of the last ranks, altogether
  std::size_t most_samples_ = 0;  // of a report
  TimePoint now_;
  Stragglers stragglers_{window};
};

void expect_slow(const Job& job, int rank, double share) {
  const auto worst = job.worst();
  ASSERT_TRUE(worst);
  EXPECT_EQ(worst->rank, rank);
  EXPECT_NEAR(worst->share(), share, 0.08);
  EXPECT_EQ(worst->group, "default");
  EXPECT_EQ(worst->pid, job.stragglers().ranks().at(rank).pid);
}

TEST(StragglerSimulation, TheSlowRankOfAnyNodeIsNamedWithinAMinute) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    for (const auto& [nodes, ranks] : {std::pair(2, 1), std::pair(2, 4), std::pair(5, 2)}) {
      SCOPED_TRACE(std::to_string(seed) + ": " + std::to_string(nodes) + " nodes");
      const int slow = static_cast<int>(seed) % (nodes * ranks);
      Job job({.nodes = nodes,
               .ranks_of_node = ranks,
               .slow_rank = slow,
               .has_clock = seed % 2 == 0,
               .seed = seed});
      job.run_until(seconds(70));
      expect_slow(job, slow, 0.78);
      EXPECT_NEAR(to_seconds(job.stragglers().ranks().at(slow).late), job.late_s(), 4);
    }
  }
}

TEST(StragglerSimulation, NobodyIsNamedWhenAllAreAlike) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    Job job({.nodes = 2,
             .ranks_of_node = static_cast<int>(seed % 4) + 1,
             .has_clock = seed % 2 == 0,
             .seed = seed});
    job.run_until(seconds(70));
    EXPECT_FALSE(job.worst()) << seed;
    EXPECT_GT(job.stragglers().groups().at("default").collectives, 500U);
  }
}

TEST(StragglerSimulation, AThousandRanksOnManyNodes) {
  Job job({.nodes = 125, .ranks_of_node = 8, .slow_rank = 777});
  job.run_until(seconds(65));
  expect_slow(job, 777, 0.78);
}

TEST(StragglerSimulation, OfManyCollectivesAFewAreEnough) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    Job job({.nodes = 2, .ranks_of_node = 2, .step_ns = ms, .slow_rank = 1, .seed = seed});
    job.run_until(seconds(70));
    EXPECT_LE(job.most_samples(), Arrivals::most_samples);
    expect_slow(job, 1, 0.75);
    const auto& group = job.stragglers().groups().at("default");
    EXPECT_NEAR(static_cast<double>(group.collectives), 70'000 / 5.15, 1500);
  }
}

// The samples are not always, or never, those before which the rank is slow.
TEST(StragglerSimulation, ARankThatIsSlowOnceAStepIsNeitherMissedNorExaggerated) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    Job job(
        {.nodes = 3, .ranks_of_node = 1, .step_ns = 2 * ms, .slow_rank = 2, .slow_every = 4, .seed = seed});
    job.run_until(seconds(90));
    EXPECT_NEAR(to_seconds(job.stragglers().ranks().at(2).late), job.late_s(), job.late_s() * 0.15);
    expect_slow(job, 2, 0.48);
  }
}

TEST(StragglerSimulation, LostReportsHideNoStraggler) {
  Job job({.nodes = 2, .ranks_of_node = 4, .slow_rank = 5, .lost = 0.2});
  job.run_until(seconds(70));
  const auto worst = job.worst();
  ASSERT_TRUE(worst);
  EXPECT_EQ(worst->rank, 5);
}

TEST(StragglerSimulation, ANodeThatFallsSilentLeavesNoStragglerBehind) {
  Job job({.nodes = 3, .ranks_of_node = 2, .slow_rank = 4});
  job.run_until(seconds(65));
  expect_slow(job, 4, 0.78);
  job.silence(0);
  job.run_until(seconds(130));
  EXPECT_FALSE(job.worst()) << "nothing is known of the last minute";
}

TEST(StragglerSimulation, ARankThatHasRecoveredIsForgotten) {
  Job job({.nodes = 2, .ranks_of_node = 2, .slow_rank = 3});
  job.run_until(seconds(65));
  expect_slow(job, 3, 0.78);
  job.set_slow_rank(0);
  job.run_until(seconds(130));
  expect_slow(job, 0, 0.78);
}

// A collective that moves much data may end earlier on one node, though all ranks came together.
TEST(StragglerSimulation, TheClocksAcquitARankWhoseCollectivesEndEarly) {
  const Setting early{.nodes = 2, .ranks_of_node = 1, .step_ns = 20 * ms, .early_ns = 60 * ms};
  Setting blind = early;
  blind.has_clock = false;
  Job without(blind);
  without.run_until(seconds(70));
  EXPECT_TRUE(without.worst());
  Job with(early);
  with.run_until(seconds(70));
  EXPECT_FALSE(with.worst());
  EXPECT_GT(with.stragglers().groups().at("default").collectives, 500U);
}

}  // namespace
}  // namespace dlaunch::agent
