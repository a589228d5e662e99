// How the ranks of a group begin a communicator: each states its device in the group's part of the store, and
// rank 0 answers with NCCL's unique id, or with the reason why there is none.
#pragma once

#include <functional>
#include <string>

#include "dlaunch/backend.h"

namespace dlaunch::internal {

struct NcclPlace {
  int rank;
  int size;
  std::string device;      // device_identity()
  bool may_share_devices;  // NCCL allows two ranks on one device
};

// The bytes that `make` has returned on rank 0. Throws DistNetworkError that names the ranks that did not
// come before the deadline, DistBackendError if two ranks use one device, and what the store and `make`
// throw.
std::string share_unique_id(BackendStore& store, const NcclPlace& place, Deadline deadline,
                            const std::function<std::string()>& make);

}  // namespace dlaunch::internal
