#include "runtime/bootstrap.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "runtime/deadline.h"
#include "runtime/key_value_store.h"
#include "store/contract/worker_env.h"

namespace dlaunch {

namespace {

Error wrong_variable(std::string_view name, const std::string& is) {
  return {ErrorKind::invalid, "cannot find the other ranks", "",
          "the environment variable " + std::string(name) + " is " + is,
          "start the program with dlaunch, which sets it"};
}

Result<int> number(const Environment& environment, std::string_view name, int least, int most) {
  const std::optional<std::string> text = environment(name);
  if (!text) return wrong_variable(name, "not set");
  int value = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stop != end) return wrong_variable(name, "'" + *text + "', not a number");
  if (value < least || value > most) {
    return wrong_variable(name,
                          *text + ", not between " + std::to_string(least) + " and " + std::to_string(most));
  }
  return value;
}

class StoreForBackend final : public BackendStore {
 public:
  StoreForBackend(std::shared_ptr<Store> store, std::function<void()> check)
      : store_(std::move(store)), check_(std::move(check)) {}

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
    constexpr auto turn = std::chrono::milliseconds(200);
    for (;;) {
      const auto left = time_left(deadline);
      try {
        return store_->wait(keys, check_ ? std::min<std::chrono::milliseconds>(turn, left) : left);
      } catch (const StoreError& e) {
        if (e.error().kind != ErrorKind::timeout || has_passed(deadline)) throw store_error(e);
      }
      if (check_) check_();
    }
  }

 private:
  const std::shared_ptr<Store> store_;
  const std::function<void()> check_;
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
  if (!host) return wrong_variable(env::master_addr, "not set");
  if (host->empty()) return wrong_variable(env::master_addr, "empty");
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

std::unique_ptr<BackendStore> backend_store(std::shared_ptr<Store> store, std::function<void()> check) {
  return std::make_unique<StoreForBackend>(std::move(store), std::move(check));
}

}  // namespace dlaunch
