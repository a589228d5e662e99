// The job's secret, from the environment or from a file that only its owner can read.
#pragma once

#include <string>

#include "store/base/result.h"
#include "store/server/store_access.h"

namespace dlaunch::launcher {

// Returns the value of DLAUNCH_TOKEN, and removes it from this process's environment and from what /proc
// shows of this process and its children. No worker needs it, and a worker's variables may get into its logs.
// REQUIRES: no other thread runs.
std::string take_secret_variable();

// The secret in the file, or `from_variable` if no file is named; without a line end after it. Empty: there
// is none. An error if the file cannot be read, is empty, or can be read by others; a group may read what
// belongs to root (a secret that Kubernetes mounts for a pod's group).
Result<std::string> read_secret(const std::string& token_file, std::string from_variable);

// The key that a store's clients must prove to know; none without a secret.
StoreKey key_of_store(const std::string& secret, bool tls);

// Writes the key of the job's store, for the workers, into a file that only this user can read. Returns its
// path.
Result<std::string> write_store_key(const std::string& folder, const std::string& secret, bool tls);

}  // namespace dlaunch::launcher
