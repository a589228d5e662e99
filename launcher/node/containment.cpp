#include "launcher/node/containment.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "agent/process/job_resources.h"
#include "agent/process/scratch_dir.h"
#include "agent/process/timer_fifo.h"
#include "store/base/log.h"

namespace dlaunch::launcher {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread
  return value != nullptr ? value : "";
}

bool names_temporary_folder() { return !variable("TMPDIR").empty(); }

// For small and short-lived files: in memory, which is faster than a disk, unless TMPDIR is set.
Result<LockedDir> scratch_dir_for_job() {
  if (!names_temporary_folder()) {
    if (auto in_memory = agent::make_scratch_dir("/dev/shm")) return in_memory;
  }
  return agent::make_scratch_dir(temporary_folder());
}

// In memory in any case: a page that is backed by a disk can make a worker wait for the disk. None: there is
// no such place, or the scratch directory is already in memory.
LockedDir pages_dir_for_job() {
  if (!names_temporary_folder()) return {};
  auto in_memory = agent::make_scratch_dir("/dev/shm");
  return in_memory ? *in_memory : LockedDir{};
}

// None, unless the user requests torchrun's watchdog as with torchrun.
Result<agent::TimerFifo> timer_fifo_for_job(const Result<LockedDir>& scratch_dir) {
  if (variable("TORCHELASTIC_ENABLE_FILE_TIMER") != "1") return agent::TimerFifo{};
  const std::string named = variable("TORCHELASTIC_TIMER_FILE");
  if (named.empty() && !scratch_dir) return scratch_dir.error();
  return agent::open_timer_fifo(named.empty() ? scratch_dir->path + "/timers" : named);
}

}  // namespace

std::string temporary_folder() { return names_temporary_folder() ? variable("TMPDIR") : "/tmp"; }

Result<Containment> Containment::begin(char* argv0, std::size_t argv0_size) {
  auto scratch_dir = scratch_dir_for_job();
  // If the user chose the place, this is an error. Otherwise the job runs without, even on a full machine.
  if (!scratch_dir && names_temporary_folder()) return scratch_dir.error();
  agent::JobResources resources{scratch_dir ? *scratch_dir : LockedDir{}, {}, pages_dir_for_job()};
  auto timer_fifo = timer_fifo_for_job(scratch_dir);
  if (!timer_fifo) {
    agent::remove_all(resources);
    return timer_fifo.error();
  }
  resources.timer_fifo = *timer_fifo;
  const auto make_cgroup = [own = getpid()] { return agent::make_job_cgroup(own); };
  auto keeper = agent::start_keeper(argv0, argv0_size, resources, make_cgroup);
  if (!keeper) {
    agent::remove_all(resources);
    return keeper.error();
  }
  return Containment(std::move(scratch_dir), *keeper);
}

Containment::Containment(Containment&& other) noexcept
    : scratch_dir_(std::move(other.scratch_dir_)),
      keeper_(std::move(other.keeper_)),
      has_keeper_(std::exchange(other.has_keeper_, false)) {}

Containment::~Containment() {
  if (!has_keeper_) return;
  close(keeper_.socket);
  while (waitpid(keeper_.child, nullptr, 0) < 0 && errno == EINTR) {
  }
  agent::end_and_remove_all(keeper_.resources);
}

agent::Keeper Containment::take_keeper() {
  has_keeper_ = false;
  return keeper_;
}

std::string Containment::pages_dir() const {
  return resources().pages_dir.exists() ? resources().pages_dir.path : scratch_dir();
}

void Containment::log_limitations() const {
  if (!scratch_dir_) log::warning("workers have no error files: " + scratch_dir_.error().message());
}

}  // namespace dlaunch::launcher
