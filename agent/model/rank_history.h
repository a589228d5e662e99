// What the ranks of this node did in the last minutes, one sample a look, and how many operations each
// carried out. Bounded. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/model/rank_times.h"
#include "agent/model/worker_look.h"
#include "store/base/time.h"

namespace dlaunch::agent {

class RankHistory {
 public:
  static constexpr std::size_t most_samples = 150;
  // The letters of a sample, by Spent; and for a rank that did not run.
  static constexpr std::string_view letters = "scowt?";
  static constexpr char absent = '.';

  // A round begins; the samples of the earlier ones stay.
  void begin_round(TimePoint now) { times_.begin_round(now); }
  // Adds a sample to every rank. Without workers, as between two rounds: that none ran.
  void look(TimePoint now, const std::vector<WorkerLook>& workers);

  // By rank, the oldest sample first; all have the same length.
  [[nodiscard]] const std::map<int, std::string>& samples() const { return samples_; }
  // Operations a second that the rank has finished between the last two looks; 0: not known.
  [[nodiscard]] double rate(int rank) const;
  [[nodiscard]] const TimesOfRanks& times() const { return times_; }
  [[nodiscard]] const std::vector<WorkerLook>& last_look() const { return last_look_; }
  [[nodiscard]] TimePoint looked() const { return looked_; }

 private:
  struct Count {
    std::int64_t pid = 0;
    std::uint64_t moves = 0;
    double rate = 0;
  };

  TimesOfRanks times_;
  std::map<int, std::string> samples_;
  std::map<int, Count> counts_;
  std::size_t length_ = 0;  // of all samples
  std::vector<WorkerLook> last_look_;
  TimePoint looked_;
};

}  // namespace dlaunch::agent
