// The store through which the processes of the job find each other.
#pragma once

#include <memory>

#include "dlaunch/backend.h"
#include "runtime/rendezvous/bootstrap.h"
#include "store/client/store.h"

namespace dlaunch::internal {

// The store of the init_method. Rank 0 serves it until its process ends, unless it is served already. Waits
// until the deadline. Throws DistStoreError.
std::shared_ptr<Store> open_job_store(const InitMethod& method, const Identity& self, Deadline deadline);

}  // namespace dlaunch::internal
