// Loaded into ranks with LD_PRELOAD: writes which of MPI's collectives they call into the file of the
// variable MPI_CALLS, each once for each process.
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>

namespace {

void note(std::atomic_flag& is_noted, const std::string& name) {
  const char* const file = std::getenv("MPI_CALLS");
  if (file == nullptr || is_noted.test_and_set()) return;
  const int descriptor = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const std::string line = name + "\n";
  if (descriptor < 0 || write(descriptor, line.data(), line.size()) < 0) std::abort();
  close(descriptor);
}

}  // namespace

extern "C" {

int MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm group,
                   MPI_Request* request) {
  static std::atomic_flag is_noted;
  note(is_noted, "MPI_Iallreduce");
  return PMPI_Iallreduce(from, to, count, type, op, group, request);
}

int MPI_Ireduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm group,
                MPI_Request* request) {
  static std::atomic_flag is_noted;
  note(is_noted, "MPI_Ireduce");
  return PMPI_Ireduce(from, to, count, type, op, root, group, request);
}

int MPI_Iallgather(const void* from, int sent, MPI_Datatype sent_type, void* to, int received,
                   MPI_Datatype received_type, MPI_Comm group, MPI_Request* request) {
  static std::atomic_flag is_noted;
  note(is_noted, "MPI_Iallgather");
  return PMPI_Iallgather(from, sent, sent_type, to, received, received_type, group, request);
}

}  // extern "C"
