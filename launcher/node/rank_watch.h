// What this node's dlaunch learns of its ranks while they run: who comes late, what each did in the last
// minutes, and on what its time was spent.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/model/job_status.h"
#include "agent/model/job_times.h"
#include "agent/model/node_ranks.h"
#include "agent/model/rank_history.h"
#include "agent/model/stragglers.h"
#include "agent/observe/straggler_watch.h"
#include "agent/observe/worker_looks.h"
#include "agent/output/output.h"
#include "store/base/io.h"

namespace dlaunch::launcher {

class RankWatch {
 public:
  struct Dependencies {  // not owned; all must outlive it
    Clock& clock;
    Timers& timers;
    const agent::Output& output;
  };
  struct Config {
    int slots = 0;          // ranks of this node
    Duration window{};      // of the notes of stragglers; looks are 30 times as frequent
    std::string pages_dir;  // empty: the workers have no pages
    std::function<agent::JobStatus()> status;
    agent::StragglerWatch::Report report_arrivals;
  };

  RankWatch(Dependencies dependencies, Config config);

  // The state of each worker as the kernel shows it, its last line, and how late it came; and the straggler.
  void add_to(agent::JobStatus& status) const;
  // What the leader answers to report_arrivals.
  void take(const agent::Lateness& lateness) { stragglers_.take(lateness); }
  // The workers of a round have begun, stop, or are gone.
  void on_phase() { looks_.look(); }
  // These workers have ended, all of a round.
  void on_end(const agent::JobStatus& ended) { looks_.look(ended); }
  // Until the last phase or look.
  [[nodiscard]] const agent::JobTimes& times() const { return times_; }
  // Of this node; with the last lines of this rank, if it is here.
  [[nodiscard]] agent::NodeRanks ranks(int rank_with_lines) const;

 private:
  void take(TimePoint now, const agent::JobStatus& status, const std::vector<agent::WorkerLook>& looks);

  Dependencies dependencies_;
  std::function<agent::JobStatus()> status_;
  agent::StragglerWatch stragglers_;
  agent::RankHistory history_;
  agent::JobTimes times_;
  std::optional<int> round_;  // of the last look at workers
  agent::WorkerLooks looks_;
};

}  // namespace dlaunch::launcher
