// The backends over TCP connections and shared memory.
#pragma once

#include <cstdint>
#include <memory>

#include "dlaunch/backend.h"

namespace dlaunch::internal {

enum class SharedMemoryUse : std::uint8_t {
  if_possible,
  required,  // else DistBackendError, on all ranks, that names a rank that shares none
};

// Called by every rank of the group. Throws DistNetworkError, DistBackendError or DistStoreError.
std::unique_ptr<Backend> make_backend(const BackendContext& context, SharedMemoryUse use);

}  // namespace dlaunch::internal
