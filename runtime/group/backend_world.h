// The ranks of a program that names neither rank nor store: those of the world that the backend's own
// launcher has formed (mpirun).
#pragma once

#include <optional>
#include <string>

#include "dlaunch/backend.h"
#include "runtime/base/process_environment.h"
#include "runtime/rendezvous/bootstrap.h"

namespace dlaunch::internal {

// None: the environment names a rank or a store, or the backend has no such world. Every rank calls it at the
// same time; rank 0 then serves the store until the process ends. Throws DistBackendError if the backend
// cannot be used here, DistNetworkError that names the missing ranks, DistStoreError.
std::optional<Identity> identify_by_backend(const std::string& backend, const Environment& environment,
                                            Deadline deadline);

}  // namespace dlaunch::internal
