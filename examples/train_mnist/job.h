// What a launcher tells its workers through the environment, as far as this program asks before it has joined
// the others. (libdlaunch reads the rest itself.)
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

namespace mnist {

struct Job {
  bool launched = false;       // false: started by hand, one process, nobody restarts it
  std::size_t rank = 0;        // among all workers
  std::size_t local_rank = 0;  // among those of this host
  std::size_t world_size = 1;
  std::size_t restarts = 0;  // how often a failure has restarted the job's workers
  bool first_round = true;   // these are the first workers the job ever started
  std::string id;            // tells jobs that run at one time on one host apart; a part of a file name
};

// Looks up one variable; nothing if it is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;

// Reads RANK, LOCAL_RANK, WORLD_SIZE, MASTER_PORT, TORCHELASTIC_RUN_ID, TORCHELASTIC_RESTART_COUNT, and
// dlaunch's DLAUNCH_JOB_ID and DLAUNCH_ROUND. Without RANK nobody launched this process. Throws UsageError
// where a number is none.
Job job_from(const Environment& environment);

}  // namespace mnist
