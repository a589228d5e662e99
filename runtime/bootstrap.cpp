#include "runtime/bootstrap.h"

#include <charconv>
#include <cstdlib>
#include <utility>
#include <vector>

#include "runtime/deadline.h"
#include "store/contract/worker_env.h"
#include "store/tcp_store.h"

namespace dlaunch {

namespace {

Error wrong_variable(std::string_view name, std::string why) {
  return {ErrorKind::invalid, "cannot find the other ranks: the environment variable", std::string(name),
          std::move(why), "start the program with dlaunch, which sets it"};
}

Result<int> number(const Environment& environment, std::string_view name, int least, int most) {
  const std::optional<std::string> text = environment(name);
  if (!text) return wrong_variable(name, "is not set");
  int value = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stop != end) return wrong_variable(name, "'" + *text + "' is not a number");
  if (value < least || value > most) {
    return wrong_variable(
        name, *text + " is not between " + std::to_string(least) + " and " + std::to_string(most));
  }
  return value;
}

DistStoreError store_error(const StoreError& e) { return DistStoreError(e.what()); }

std::string arrival(int rank) { return "rank/" + std::to_string(rank); }

// "ranks 1, 4, 7"; of many only the first.
std::string name_ranks(const std::vector<int>& ranks, int world_size) {
  constexpr std::size_t most = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(most, ranks.size()); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  }
  if (ranks.size() > most) text += " and " + std::to_string(ranks.size() - most) + " more";
  return text + " of " + std::to_string(world_size);
}

class StoreForBackend final : public BackendStore {
 public:
  explicit StoreForBackend(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  void set(const std::string& key, const std::string& value) override {
    try {
      store_->set(key, value);
    } catch (const StoreError& e) {
      throw store_error(e);
    }
  }
  std::string get(const std::string& key, Deadline deadline) override {
    wait({&key, 1}, deadline);
    try {
      return store_->get(key);
    } catch (const StoreError& e) {
      throw store_error(e);
    }
  }
  void wait(std::span<const std::string> keys, Deadline deadline) override {
    try {
      store_->wait(keys, time_left(deadline));
    } catch (const StoreError& e) {
      throw store_error(e);
    }
  }

 private:
  std::shared_ptr<Store> store_;
};

}  // namespace

std::optional<std::string> process_environment(std::string_view name) {
  const char* const value = std::getenv(std::string(name).c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

Result<Identity> identify(const Environment& environment) {
  constexpr int most_ranks = 1 << 24;
  Result<int> world_size = number(environment, env::world_size, 1, most_ranks);
  if (!world_size) return world_size.error();
  Result<int> rank = number(environment, env::rank, 0, *world_size - 1);
  if (!rank) return rank.error();
  const std::optional<std::string> host = environment(env::master_addr);
  if (!host) return wrong_variable(env::master_addr, "is not set");
  if (host->empty()) return wrong_variable(env::master_addr, "is empty");
  Result<int> port = number(environment, env::master_port, 1, 65535);
  if (!port) return port.error();

  Identity identity{*rank, *world_size, {*host, static_cast<std::uint16_t>(*port)}, "0"};
  // torchrun's agent keeps one store over all restarts, but counts them.
  for (const std::string_view name : {env::round, env::restart_count}) {
    if (const std::optional<std::string> round = environment(name)) {
      identity.round = *round;
      break;
    }
  }
  return identity;
}

std::shared_ptr<Store> connect_store(const Address& server, Deadline deadline) {
  try {
    TcpStoreOptions options;
    options.server = server;
    options.timeout = time_left(deadline);
    return std::make_shared<TcpStore>(options);
  } catch (const StoreError& e) {
    throw DistStoreError("the store at " + to_string(server) +
                         " (MASTER_ADDR:MASTER_PORT) cannot be reached: " + e.what() +
                         "; dlaunch serves it for the programs that it starts");
  }
}

void join(Store& store, int rank, int world_size, Deadline deadline) {
  const std::string complete = "complete";
  try {
    store.set(arrival(rank), "");
    // The one who counts to the end tells all: the work of the store grows with
    // the ranks, not with their square.
    if (store.add("arrived", 1) == world_size) store.set(complete, "");
    try {
      store.wait({&complete, 1}, time_left(deadline));
      return;
    } catch (const StoreError& e) {
      if (e.error().kind != ErrorKind::timeout) throw;
    }
    std::vector<int> missing;
    for (int other = 0; other < world_size; ++other) {
      const std::string key = arrival(other);
      if (!store.check({&key, 1})) missing.push_back(other);
    }
    if (missing.empty()) return;  // the last one came while we looked
    throw DistNetworkError("not all ranks came before the deadline; missing: " +
                           name_ranks(missing, world_size));
  } catch (const StoreError& e) {
    throw store_error(e);
  }
}

std::unique_ptr<BackendStore> backend_store(std::shared_ptr<Store> store) {
  return std::make_unique<StoreForBackend>(std::move(store));
}

}  // namespace dlaunch
