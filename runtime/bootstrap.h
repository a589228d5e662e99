// How a process finds out who it is and meets the others: environment, store, join.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "dlaunch/backend.h"
#include "store/base/address.h"
#include "store/base/result.h"
#include "store/store.h"

namespace dlaunch {

// What the launcher has told this process.
struct Identity {
  int rank = 0;
  int world_size = 1;
  Address master;  // where the store is
  std::string
      round;  // which of the job's worlds this process belongs to; separates the keys of different ones
};

using Environment = std::function<std::optional<std::string>(std::string_view name)>;
std::optional<std::string> process_environment(std::string_view name);

// Fails with the name of the variable that is missing or wrong.
Result<Identity> identify(const Environment& environment);

// Waits for the server until the deadline. Throws DistStoreError.
std::shared_ptr<Store> connect_store(const Address& server, Deadline deadline);

// Returns when all ranks have called it on (their connection to) the same store and prefix. Throws
// DistNetworkError that names the ranks that did not come before the deadline, DistStoreError if the store
// fails. REQUIRES: each prefix is used once.
void join(Store& store, int rank, int world_size, Deadline deadline);

// The part of the store that a backend sees.
std::unique_ptr<BackendStore> backend_store(std::shared_ptr<Store> store);

}  // namespace dlaunch
