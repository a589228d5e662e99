#include "runtime/bootstrap.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "runtime/deadline.h"
#include "runtime/key_value_store.h"
#include "store/base/entropy.h"
#include "store/contract/worker_env.h"

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

std::string arrival(int rank) { return "rank/" + std::to_string(rank); }

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "an unnamed host";
}

// Who has come, as a value in the store: host, process, and a number that no other process has.
struct Visitor {
  std::string host;
  std::string process;

  static std::string self() {
    return host_name() + "\n" + std::to_string(getpid()) + "\n" + std::to_string(draw_number());
  }
  static Visitor parse(const std::string& text) {
    const std::size_t first = std::min(text.find('\n'), text.size());
    const std::size_t second = std::min(text.find('\n', first + 1), text.size());
    return {text.substr(0, first), first < text.size() ? text.substr(first + 1, second - first - 1) : ""};
  }
};

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    result.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return result;
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
  identity.store_is_served = environment(env::use_agent_store) == "True";
  // torchrun's agent keeps one store over all restarts, but counts them.
  for (const std::string_view name : {env::round, env::restart_count}) {
    if (const std::optional<std::string> round = environment(name)) {
      identity.round = *round;
      break;
    }
  }
  return identity;
}

Result<InitMethod> parse_init_method(std::string_view text) {
  const auto wrong = [&](std::string why) {
    return Error{ErrorKind::invalid, "cannot use init_method", "'" + std::string(text) + "'", std::move(why),
                 "known are env://, tcp://host:port and file:///path"};
  };
  constexpr std::string_view tcp = "tcp://";
  constexpr std::string_view file = "file://";
  if (text.empty() || text == "env://") return InitMethod{};
  if (text.starts_with(tcp)) {
    const Result<Address> address = parse_address(text.substr(tcp.size()), 0);
    if (!address) return wrong(address.error().message());
    if (address->port == 0) return wrong("the port is missing");
    return InitMethod{InitMethod::Kind::tcp, *address, ""};
  }
  if (text.starts_with(file)) {
    const std::string_view path = text.substr(file.size());
    if (!path.starts_with('/')) return wrong("the path must begin with a slash");
    return InitMethod{InitMethod::Kind::file, {}, std::string(path)};
  }
  return wrong("there is no such method");
}

std::string name_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t most = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(most, ranks.size()); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  }
  if (ranks.size() > most) text += " and " + std::to_string(ranks.size() - most) + " more";
  return text;
}

std::vector<std::string> join(Store& store, int rank, int world_size, Deadline deadline) {
  const std::string complete = "complete";
  std::vector<std::string> arrivals;
  arrivals.reserve(static_cast<std::size_t>(world_size));
  for (int other = 0; other < world_size; ++other) arrivals.push_back(arrival(other));
  try {
    const std::string self = Visitor::self();
    const std::string there = store.compare_set(arrival(rank), "", self);
    if (there != self) {
      const Visitor other = Visitor::parse(there);
      throw DistError("process " + other.process + " on " + other.host + " has joined as rank " +
                      std::to_string(rank) +
                      " already; if it is of an earlier run, the store still holds that run's left-overs: "
                      "remove them (the file of file://) or use another store");
    }
    // The one who counts to the end tells all: the work of the store grows with
    // the ranks, not with their square.
    if (store.add("arrived", 1) == world_size) {
      std::string hosts;
      for (const std::string& visitor : store.multi_get(arrivals))
        hosts += Visitor::parse(visitor).host + "\n";
      store.set(complete, hosts);
    }
    try {
      store.wait({&complete, 1}, time_left(deadline));
      return lines(store.get(complete));
    } catch (const StoreError& e) {
      if (e.error().kind != ErrorKind::timeout) throw;
    }
    std::vector<int> missing;
    for (int other = 0; other < world_size; ++other) {
      if (!store.check({&arrivals[static_cast<std::size_t>(other)], 1})) missing.push_back(other);
    }
    if (missing.empty()) return lines(store.get(complete));  // the last one came while we looked
    throw DistNetworkError("not all ranks came before the deadline; missing: " + name_ranks(missing) +
                           " of " + std::to_string(world_size));
  } catch (const StoreError& e) {
    throw store_error(e);
  }
}

std::unique_ptr<BackendStore> backend_store(std::shared_ptr<Store> store) {
  return std::make_unique<StoreForBackend>(std::move(store));
}

}  // namespace dlaunch
