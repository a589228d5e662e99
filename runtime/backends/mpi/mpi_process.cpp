#include "runtime/backends/mpi/mpi_process.h"

#include <dlfcn.h>
#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "dlaunch/error.h"
#include "runtime/backends/mpi/mpi_error.h"
#include "runtime/backends/mpi/mpi_host_ranks.h"
#include "runtime/base/process_environment.h"

namespace dlaunch::internal {

namespace {

#if defined(OPEN_MPI)
constexpr const char* built_for = "Open MPI";
#elif defined(MPICH_VERSION)
constexpr const char* built_for = "MPICH";
#else
constexpr const char* built_for = "";
#endif

std::atomic<int> users = 0;  // operations that use MPI
std::atomic<bool> is_left_unfinished = false;
std::atomic<bool> calls_take_turns = false;
std::mutex turns;
pid_t initialising_process = 0;

// The program may be linked with another MPI than this module, whose functions the process then takes.
void require_same_library() {
  std::string version(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int length = 0;
  require_mpi(MPI_Get_library_version(version.data(), &length), "MPI_Get_library_version");
  version.resize(static_cast<std::size_t>(length));
  if (version.find(built_for) == std::string::npos) {
    throw DistBackendError("this process has loaded " + version.substr(0, version.find('\n')) +
                           ", and the backend was built for " + built_for + ": build both with the same MPI");
  }
}

// Open MPI loads plug-ins that take its symbols from the process, which has not got them: a backend's symbols
// are its own.
void make_library_visible() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&MPI_Init_thread), &info) != 0 && info.dli_fname)
    (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

// MPI_Finalize waits for all ranks. After a failure it would wait for ever; and MPI's launcher ends the other
// ranks when one ends without it.
void finalize_at_process_end(int status, void* /*unused*/) {
  if (status != 0 || initialising_process != getpid() || users > 0 || is_left_unfinished) return;
  int is_finalized = 0;
  if (MPI_Finalized(&is_finalized) == MPI_SUCCESS && is_finalized == 0) (void)MPI_Finalize();
}

void initialise() {
  make_library_visible();
  int provided = MPI_THREAD_SINGLE;
  int is_initialized = 0;
  int is_finalized = 0;
  require_mpi(MPI_Initialized(&is_initialized), "MPI_Initialized");
  require_mpi(MPI_Finalized(&is_finalized), "MPI_Finalized");
  if (is_finalized != 0)
    throw DistBackendError("the program has called MPI_Finalize: call it after destroy_process_group()");
  if (is_initialized != 0) {
    require_mpi(MPI_Query_thread(&provided), "MPI_Query_thread");
  } else {
    require_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
    initialising_process = getpid();
    require_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    on_exit(finalize_at_process_end, nullptr);
  }
  if (provided < MPI_THREAD_SERIALIZED) {
    throw DistBackendError(
        "MPI was initialised for calls of one thread: call MPI_Init_thread with MPI_THREAD_MULTIPLE, or "
        "leave "
        "it to init_process_group()");
  }
  calls_take_turns = provided < MPI_THREAD_MULTIPLE;
}

MpiPlace find_place() {
  require_same_library();
  initialise();
  MpiPlace place{};
  require_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &place.rank), "MPI_Comm_rank");
  require_mpi(MPI_Comm_size(MPI_COMM_WORLD, &place.size), "MPI_Comm_size");
  place.local_size = ranks_on_host(process_environment);
  return place;
}

}  // namespace

const MpiPlace& mpi_place() {
  static const MpiPlace place = find_place();
  return place;
}

MpiCallLock::MpiCallLock() {
  if (calls_take_turns.load(std::memory_order_relaxed)) lock_ = std::unique_lock(turns);
}

MpiUse::MpiUse() { users.fetch_add(1, std::memory_order_relaxed); }
MpiUse::~MpiUse() { users.fetch_sub(1, std::memory_order_relaxed); }
void MpiUse::leave_unfinished() { is_left_unfinished = true; }

}  // namespace dlaunch::internal
