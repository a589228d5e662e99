// The command line of `dlaunch store` as a value.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/options/options.h"
#include "store/base/address.h"
#include "store/protocol/limits.h"
#include "store/protocol/wire.h"

namespace dlaunch::launcher {

// `dlaunch store [options]`: serve.
struct StoreServe {
  Address address{"127.0.0.1", 29500};  // port 0: any that is free
  Duration status_interval{};           // zero: no status lines
  StoreLimits limits;
  std::string token_file{};  // with the secret that clients prove; empty: DLAUNCH_TOKEN, if it is set
  bool tls = false;          // clients elsewhere must be encrypted
};

// `dlaunch store get KEY` and the other commands: a request to a server.
struct StoreRequest {
  enum class What { get, set, add, append, compare_set, check, wait, keys, num_keys, delete_key };

  What what = What::get;
  std::vector<std::string> words;  // keys, values, numbers: as many as `what` takes
  std::int64_t amount = 0;         // of add
  Address server;
  Duration timeout{};  // to wait for keys; zero: do not wait
  std::string prefix;  // of every key; empty: none
  bool raw = false;    // the value's bytes and nothing else
  Dialect dialect = Dialect::v2_2;
  std::string token_file{};  // as of StoreServe
  bool tls = false;          // the connection is encrypted
};

// `arguments`: what follows "dlaunch store". `variable` reads the environment: without --endpoint,
// MASTER_ADDR and MASTER_PORT name the server.
using Variable = std::function<std::optional<std::string>(const std::string& name)>;
Result<std::variant<StoreServe, StoreRequest, PrintAndExit>> parse_store_options(
    const std::vector<std::string>& arguments, const Variable& variable);

}  // namespace dlaunch::launcher
