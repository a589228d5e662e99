// The key of the job's store, as its workers are given it.
#pragma once

#include <string>

#include "store/base/address.h"

namespace dlaunch {

// Of a worker of a job with a secret, for the store that its agent serves at `server`: the key to prove.
// Empty for every other process and server. Any thread, while none changes the environment.
std::string job_store_key(const Address& server);

// The text of the file that DLAUNCH_STORE_KEY_FILE names, and back; empty: it is no such text.
std::string store_key_text(const std::string& key);
std::string parse_store_key(const std::string& text);

}  // namespace dlaunch
