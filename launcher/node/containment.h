// Holds a job's processes together on this machine, and ends them: its cgroup, its directories for small
// files, guard and keeper (agent/process/keeper.h).
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "agent/process/job_cgroup.h"
#include "agent/process/keeper.h"
#include "store/base/locked_dir.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

class Containment {
 public:
  // `argv0` is the start of the process's argument area, `argv0_size` its size. Workers inherit this process
  // as it is now; guard and keeper start while the caller continues.
  static Result<Containment> begin(char* argv0, std::size_t argv0_size);

  Containment(Containment&& other) noexcept;
  Containment& operator=(Containment&&) = delete;
  // Ends the keeper if take_keeper() was not called, and leaves nothing behind.
  ~Containment();

  agent::Keeper take_keeper();

  [[nodiscard]] const agent::JobResources& resources() const { return keeper_.resources; }
  [[nodiscard]] std::string scratch_dir() const { return resources().scratch_dir.path; }  // empty: none
  // For the workers' pages: in memory, if there is such a place.
  [[nodiscard]] std::string pages_dir() const;

  // Logs what the job must do without.
  void log_limitations() const;

 private:
  Containment(Result<LockedDir> scratch_dir, agent::Keeper keeper)
      : scratch_dir_(std::move(scratch_dir)), keeper_(std::move(keeper)) {}

  Result<LockedDir> scratch_dir_;  // may be missing
  agent::Keeper keeper_;
  bool has_keeper_ = true;
};

// Where temporary files belong: TMPDIR, or else /tmp.
std::string temporary_folder();

}  // namespace dlaunch::launcher
