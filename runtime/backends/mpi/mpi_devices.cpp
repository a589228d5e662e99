#include "runtime/backends/mpi/mpi_devices.h"

#include <optional>
#include <string>

#include "dlaunch/error.h"
#include "runtime/base/process_environment.h"

#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

namespace dlaunch::internal {

namespace {

bool reported() {
#if defined(MPIX_CUDA_AWARE_SUPPORT) || (defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40000000)
  return MPIX_Query_cuda_support() != 0;
#else
  return false;
#endif
}

}  // namespace

bool mpi_takes_device_memory() {
  static const bool takes = [] {
    const std::optional<std::string> decided = process_environment("DLAUNCH_MPI_CUDA");
    if (!decided) return reported();
    if (*decided != "0" && *decided != "1")
      throw DistBackendError("DLAUNCH_MPI_CUDA is '" + *decided + "': use 0 or 1");
    return *decided == "1";
  }();
  return takes;
}

}  // namespace dlaunch::internal
