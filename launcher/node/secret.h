// The job's secret, from the environment or from a file that only its owner can read.
#pragma once

#include <string>

#include "store/base/result.h"
#include "store/server/store_access.h"

namespace dlaunch::launcher {

// The value of DLAUNCH_TOKEN, which is then neither in this process's environment, nor in what /proc shows of
// it and of its children. No worker needs it, and what a worker has, its logs and children may have.
// REQUIRES: no other thread runs.
std::string take_secret_variable();

// The secret in the file, or, without one, `from_variable`; a line end behind it does not count. Empty: there
// is none. An error if the file cannot be read, is empty, or can be read by others; a group may read what
// belongs to root (a secret that Kubernetes mounts for a pod's group).
Result<std::string> read_secret(const std::string& token_file, std::string from_variable);

// What a store's clients must prove; nothing without a secret.
StoreKey key_of_store(const std::string& secret, bool tls);

// Writes the key of the job's store into a file that only this user reads, for the workers; its path.
Result<std::string> write_store_key(const std::string& folder, const std::string& secret, bool tls);

}  // namespace dlaunch::launcher
