// How a process determines its rank and where the store is: environment, init_method, store.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/base/process_environment.h"
#include "store/base/address.h"
#include "store/base/result.h"
#include "store/client/store.h"

namespace dlaunch::internal {

// This process's place in the job.
struct Identity {
  int rank = 0;
  int world_size = 1;
  Address master;  // where the store is
  // The job's round to which this process belongs; separates the keys of different rounds.
  std::string round = "0";
  bool store_is_served = false;  // by the launcher's agent; else rank 0 serves it
};

// A rank and a world size that the program gives, in its call or in the URL; absent: not given.
struct GivenRank {
  std::optional<int> rank = {};
  std::optional<int> world_size = {};
};

// `given` takes precedence over RANK and WORLD_SIZE. Fails with the name of the variable that is missing or
// wrong, or with what is wrong with what was given.
Result<Identity> identify(const Environment& environment, const GivenRank& given = {});

// Without an environment: both must be given. Sets only the rank and the world size of the result.
Result<Identity> identify(const GivenRank& given);

// Of a group whose workers come and go: the world size of the result is -1, as is its rank if none is given.
// Null: without an environment.
Result<Identity> identify_member(const Environment* environment, const GivenRank& given);

// An init_method, taken apart.
struct InitMethod {
  enum class Kind { env, tcp, file };
  Kind kind = Kind::env;
  Address address;   // tcp
  std::string path;  // file
  GivenRank given;   // the URL's parameters
};
Result<InitMethod> parse_init_method(std::string_view text);

// Merges the call's options (-1: not given) and the URL's. Fails if they contradict each other.
Result<GivenRank> combine(int rank, int world_size, const GivenRank& url);

// The part of the store that a backend sees. `check` is called from time to time during its waits; what it
// throws ends them. None: nothing.
std::unique_ptr<BackendStore> backend_store(std::shared_ptr<Store> store, std::function<void()> check = {});

}  // namespace dlaunch::internal
