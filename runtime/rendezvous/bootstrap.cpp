#include "runtime/rendezvous/bootstrap.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/rendezvous/key_value_store.h"
#include "store/contract/worker_env.h"

namespace dlaunch::internal {

namespace {

Error wrong_variable(const Environment& environment, std::string_view name, const std::string& is) {
  const bool by_dlaunch = environment(env::job_id).has_value();
  return {ErrorKind::invalid, "cannot find the other ranks", "",
          "the environment variable " + std::string(name) + " is " + is,
          by_dlaunch ? "dlaunch had set it: something between dlaunch and this program changed it"
                     : "start the program with dlaunch, which sets it"};
}

constexpr int most_ranks = 1 << 24;

std::string not_between(int least, int most) {
  return "not between " + std::to_string(least) + " and " + std::to_string(most);
}

// None: the text is not a number.
std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

Result<int> number(const Environment& environment, std::string_view name, int least, int most) {
  const std::optional<std::string> text = environment(name);
  if (!text) return wrong_variable(environment, name, "not set");
  const std::optional<int> value = whole_number(*text);
  if (!value) return wrong_variable(environment, name, "'" + *text + "', not a number");
  if (*value < least || *value > most)
    return wrong_variable(environment, name, *text + ", " + not_between(least, most));
  return *value;
}

// For a value that the program gave.
Result<int> checked(const char* name, int value, int least, int most) {
  if (value >= least && value <= most) return value;
  return Error{ErrorKind::invalid, "cannot use the " + std::string(name) + " that was given",
               std::to_string(value), not_between(least, most), ""};
}

// The next of the "name=value" pairs that "&" separates.
std::string_view next_pair(std::string_view& rest) {
  const std::size_t end = std::min(rest.find('&'), rest.size());
  const std::string_view pair = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return pair;
}

// The part of a URL behind the question mark. A reason why it is wrong, or empty.
std::string read_query(std::string_view query, GivenRank& given) {
  while (!query.empty()) {
    const std::string_view pair = next_pair(query);
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const std::string_view name = pair.substr(0, equals);
    const std::string_view text = pair.substr(std::min(equals + 1, pair.size()));
    if (name == "use_libuv") continue;  // PyTorch's: selects one of its two servers
    if (name != "rank" && name != "world_size") {
      return "unknown parameter '" + std::string(name) + "'; known are rank and world_size";
    }
    std::optional<int>& into = name == "rank" ? given.rank : given.world_size;
    if (into) return "the parameter " + std::string(name) + " is given twice";
    into = whole_number(text);
    if (!into) return "the parameter " + std::string(name) + " is '" + std::string(text) + "', not a number";
  }
  return {};
}

// The rest of what the environment has.
Result<Identity> with_environment(const Environment& environment, int rank, int world_size) {
  const std::optional<std::string> host = environment(env::master_addr);
  if (!host) return wrong_variable(environment, env::master_addr, "not set");
  if (host->empty()) return wrong_variable(environment, env::master_addr, "empty");
  Result<int> port = number(environment, env::master_port, 1, 65535);
  if (!port) return port.error();

  Identity identity{rank, world_size, {*host, static_cast<std::uint16_t>(*port)}, "0"};
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

// Fails if both are given and differ.
Result<std::optional<int>> combine(const char* name, int in_call, std::optional<int> in_url) {
  if (in_call == -1) return in_url;
  if (!in_url || *in_url == in_call) return std::optional(in_call);
  return Error{
      ErrorKind::invalid, "init_process_group was given two values of " + std::string(name), "",
      std::to_string(in_call) + " in the call and " + std::to_string(*in_url) + " in the URL of init_method",
      "give it once"};
}

class StoreForBackend final : public BackendStore {
 public:
  StoreForBackend(std::shared_ptr<Store> store, std::function<void()> check)
      : store_(std::move(store)), check_(std::move(check)) {}

  void set(const std::string& key, const std::string& value) override {
    with_store_errors([&] { store_->set(key, value); });
  }
  std::string get(const std::string& key, Deadline deadline) override {
    wait({&key, 1}, deadline);
    return with_store_errors([&] { return store_->get(key); });
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

Result<Identity> identify(const Environment& environment, const GivenRank& given) {
  const Result<int> world_size = given.world_size ? checked("world_size", *given.world_size, 1, most_ranks)
                                                  : number(environment, env::world_size, 1, most_ranks);
  if (!world_size) return world_size.error();
  const Result<int> rank = given.rank ? checked("rank", *given.rank, 0, *world_size - 1)
                                      : number(environment, env::rank, 0, *world_size - 1);
  if (!rank) return rank.error();
  return with_environment(environment, *rank, *world_size);
}

Result<Identity> identify_member(const Environment* environment, const GivenRank& given) {
  Result<int> rank = -1;
  if (given.rank) {
    rank = checked("rank", *given.rank, 0, most_ranks - 1);
  } else if (environment && (*environment)(env::rank)) {
    rank = number(*environment, env::rank, 0, most_ranks - 1);
  }
  if (!rank) return rank.error();
  if (environment) return with_environment(*environment, *rank, -1);
  Identity identity;
  identity.rank = *rank;
  identity.world_size = -1;
  return identity;
}

Result<Identity> identify(const GivenRank& given) {
  if (!given.rank || !given.world_size) {
    return Error{ErrorKind::invalid, "init_process_group needs a rank and a world_size", "",
                 std::string(given.rank         ? "the world_size is"
                             : given.world_size ? "the rank is"
                                                : "both are") +
                     " missing",
                 "give them in the call or in the URL; only env:// has them in the environment"};
  }
  const Result<int> world_size = checked("world_size", *given.world_size, 1, most_ranks);
  if (!world_size) return world_size.error();
  const Result<int> rank = checked("rank", *given.rank, 0, *world_size - 1);
  if (!rank) return rank.error();
  Identity identity;
  identity.rank = *rank;
  identity.world_size = *world_size;
  return identity;
}

Result<GivenRank> combine(int rank, int world_size, const GivenRank& url) {
  const Result<std::optional<int>> own_rank = combine("rank", rank, url.rank);
  if (!own_rank) return own_rank.error();
  const Result<std::optional<int>> size = combine("world_size", world_size, url.world_size);
  if (!size) return size.error();
  return GivenRank{*own_rank, *size};
}

Result<InitMethod> parse_init_method(std::string_view text) {
  const auto wrong = [&](std::string why) {
    return Error{ErrorKind::invalid, "cannot use init_method", "'" + std::string(text) + "'", std::move(why),
                 "known are env://, tcp://host:port and file:///path, each with ?rank=R&world_size=N"};
  };
  constexpr std::string_view tcp = "tcp://";
  constexpr std::string_view file = "file://";
  const std::size_t question = std::min(text.find('?'), text.size());
  const std::string_view url = text.substr(0, question);
  GivenRank given;
  if (question < text.size()) {
    if (std::string why = read_query(text.substr(question + 1), given); !why.empty())
      return wrong(std::move(why));
  }
  if (text.empty() || url == "env://") return InitMethod{InitMethod::Kind::env, {}, "", given};
  if (url.starts_with(tcp)) {
    const Result<Address> address = parse_address(url.substr(tcp.size()), 0);
    if (!address) return wrong(address.error().message());
    if (address->port == 0) return wrong("the port is missing");
    return InitMethod{InitMethod::Kind::tcp, *address, "", given};
  }
  if (url.starts_with(file)) {
    const std::string_view path = url.substr(file.size());
    if (!path.starts_with('/')) return wrong("the path must begin with a slash");
    return InitMethod{InitMethod::Kind::file, {}, std::string(path), given};
  }
  return wrong("unknown method");
}

std::unique_ptr<BackendStore> backend_store(std::shared_ptr<Store> store, std::function<void()> check) {
  return std::make_unique<StoreForBackend>(std::move(store), std::move(check));
}

}  // namespace dlaunch::internal
