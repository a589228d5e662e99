// The module that libdlaunch.so loads for the backend "mpi".

#include <memory>
#include <string>

#include "dlaunch/backend.h"
#include "runtime/backends/mpi/mpi_backend.h"
#include "runtime/backends/mpi/mpi_start.h"
#include "runtime/backends/mpi/mpi_world.h"
#include "runtime/base/process_environment.h"

namespace {

bool viable(std::string& reason) {
  reason = dlaunch::internal::why_no_mpi_world(dlaunch::internal::process_environment);
  return reason.empty();
}

std::unique_ptr<dlaunch::Backend> create(const dlaunch::BackendContext& context) {
  return std::make_unique<dlaunch::internal::MpiBackend>(context);
}

}  // namespace

const dlaunch::BackendModule dlaunch_backend_module = {
    dlaunch::backend_abi_version, "mpi", "cpu", viable, create, &dlaunch::internal::mpi_world};
