// How a process finds out who it is and meets the others: environment, store, join.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
  // Which of the job's worlds this process belongs to; separates the keys of different ones.
  std::string round = "0";
  bool store_is_served = false;  // by the launcher's agent; else rank 0 serves it
};

using Environment = std::function<std::optional<std::string>(std::string_view name)>;
std::optional<std::string> process_environment(std::string_view name);

// Fails with the name of the variable that is missing or wrong.
Result<Identity> identify(const Environment& environment);

// An init_method, taken apart.
struct InitMethod {
  enum class Kind { env, tcp, file };
  Kind kind = Kind::env;
  Address address;   // tcp
  std::string path;  // file
};
Result<InitMethod> parse_init_method(std::string_view text);

// Returns when all ranks have called it on (their connection to) the same store and prefix: the ranks' hosts.
// Throws DistNetworkError that names the ranks that did not come before the deadline, DistStoreError if the
// store fails, DistError if somebody else has joined as this rank. REQUIRES: each prefix is used once.
std::vector<std::string> join(Store& store, int rank, int world_size, Deadline deadline);

// "ranks 1, 4, 7"; of many only the first.
std::string name_ranks(const std::vector<int>& ranks);

// The part of the store that a backend sees.
std::unique_ptr<BackendStore> backend_store(std::shared_ptr<Store> store);

}  // namespace dlaunch
