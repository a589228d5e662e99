// The module of one MPI, which backend_mpi.so loads.

#include <memory>
#include <string>

#include "dlaunch/backend.h"
#include "runtime/backends/mpi/mpi_backend.h"
#include "runtime/backends/mpi/mpi_world.h"

namespace {

bool viable(std::string& /*reason*/) { return true; }  // module.cpp has decided

std::unique_ptr<dlaunch::Backend> create(const dlaunch::BackendContext& context) {
  return std::make_unique<dlaunch::internal::MpiBackend>(context);
}

}  // namespace

const dlaunch::BackendModule dlaunch_backend_module = {
    dlaunch::backend_abi_version, "mpi", "cpu", viable, create, &dlaunch::internal::mpi_world, false, true};
