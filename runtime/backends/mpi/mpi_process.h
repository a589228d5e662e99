// MPI in this process: it is initialised when the first group needs it, unless the program has done so, and
// then finalised when the process ends.
#pragma once

#include <mutex>
#include <optional>

namespace dlaunch::internal {

// The place of this process in MPI_COMM_WORLD.
struct MpiPlace {
  int rank;
  int size;
  std::optional<int> local_size;  // on this host, if the launcher has told
};

// Initialises MPI if nobody has. Throws DistBackendError: MPI refused, the program has finalised it, or has
// initialised it so that only one thread may call it. Any thread.
const MpiPlace& mpi_place();

// Held during each MPI call of a thread. If MPI has given MPI_THREAD_MULTIPLE it costs nothing; otherwise the
// calls come one at a time, which is why none of them may wait. REQUIRES: mpi_place() has returned.
class MpiCallLock {
 public:
  MpiCallLock();

 private:
  std::unique_lock<std::mutex> lock_;
};

// Lives as long as an operation uses MPI. MPI is finalised only if none does: it would wait for ever.
class MpiUse {
 public:
  MpiUse();
  ~MpiUse();
  MpiUse(const MpiUse&) = delete;
  MpiUse& operator=(const MpiUse&) = delete;
  // MPI may use the operation's memory until the process ends: MPI is not finalised any more.
  static void leave_unfinished();
};

}  // namespace dlaunch::internal
