// The key of the job's store, for its workers.
#pragma once

#include <string>

#include "store/base/address.h"

namespace dlaunch::store {

struct JobKey {
  std::string key{};  // empty: no proof is needed
  bool tls = false;   // the connection is encrypted

  bool operator==(const JobKey&) const = default;
};

// For a worker of a job with a secret: the key of the store that its agent serves at `server`. Empty for
// every other process and server. Any thread, while no thread changes the environment.
JobKey job_store_key(const Address& server);

// The text of the file that DLAUNCH_STORE_KEY_FILE names, and back; an empty key: not such a text.
std::string store_key_text(const JobKey& key);
JobKey parse_store_key(const std::string& text);

}  // namespace dlaunch::store
