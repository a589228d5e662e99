// How a process finds out who it is and where the others are: environment, init_method, store.
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

// The part of the store that a backend sees. `check` is asked now and then during its waits; what it throws
// ends them. None: nothing.
std::unique_ptr<BackendStore> backend_store(std::shared_ptr<Store> store, std::function<void()> check = {});

}  // namespace dlaunch
