#include "launcher/commands/store_options.h"

#include <algorithm>
#include <array>

#include "launcher/commands/command_parser.h"
#include "launcher/flags/spelling.h"
#include "launcher/flags/value_parsers.h"
#include "launcher/machine/process_limits.h"

namespace dlaunch::launcher {
namespace {

using What = StoreRequest::What;
using Parsed = std::variant<StoreServe, StoreRequest, PrintAndExit>;

constexpr std::uint16_t usual_port = 29500;

constexpr const char* see_help = "see dlaunch store --help";

// The commands: the number of words of each, and how long it waits for keys.
struct StoreCommand {
  std::string_view name;
  What what;
  std::string_view words;
  std::size_t least;
  std::size_t most;
  int timeout_s;
  std::string_view does;
};
constexpr std::size_t any_number = 100'000;
constexpr std::array store_commands = {
    StoreCommand{"get", What::get, "KEY", 1, 1, 0, "print the key's value"},
    StoreCommand{"set", What::set, "KEY VALUE", 2, 2, 0, "store the value; - reads it from standard input"},
    StoreCommand{"add", What::add, "KEY AMOUNT", 2, 2, 0, "add to the number at the key, and print the sum"},
    StoreCommand{"append", What::append, "KEY VALUE", 2, 2, 0, "append to the key's value; - as for set"},
    StoreCommand{"compare-set", What::compare_set, "KEY EXPECTED VALUE", 3, 3, 0,
                 "store VALUE if the key has EXPECTED ('': no value); print the key's value"},
    StoreCommand{"check", What::check, "KEY ...", 1, any_number, 0, "exit with 0 if all the keys are there"},
    StoreCommand{"wait", What::wait, "KEY ...", 1, any_number, 300, "wait until all the keys are there"},
    StoreCommand{"keys", What::keys, "", 0, 0, 0, "print all keys, one a line"},
    StoreCommand{"num-keys", What::num_keys, "", 0, 0, 0, "print how many keys there are"},
    StoreCommand{"delete", What::delete_key, "KEY", 1, 1, 0, "remove the key"},
};

std::string serve_description() {
  std::string text =
      "dlaunch store serves a key-value store in PyTorch's TCPStore protocol (all versions from 1.13 on),\n"
      "with /healthz, /status and /metrics over HTTP on the same port. With a COMMAND it sends a "
      "request\n"
      "to such a server: its own, a running job's, or PyTorch's.\n\n"
      "Usage: dlaunch store [options]\n"
      "       dlaunch store COMMAND [options] [words ...]\n\n"
      "Commands:\n";
  for (const StoreCommand& command : store_commands) {
    std::string line = "  " + std::string(command.name) + " " + std::string(command.words);
    line.resize(std::max<std::size_t>(line.size() + 1, 36), ' ');
    text += line + std::string(command.does) + "\n";
  }
  return text;
}

constexpr const char* serve_footer =
    "Without --token-file, everybody who can connect to the port can read and write. SIGTERM or Ctrl-C stops "
    "it.\n"
    "To start a program named store: dlaunch -- store\n"
    "Manual: man dlaunch-store";

Result<Parsed> parse_serve(const std::vector<std::string>& arguments) {
  std::string host = "127.0.0.1";
  std::string port = std::to_string(usual_port);
  std::string interval = "0";
  std::string key_size;
  std::string value_size;
  std::string total_size;
  CommandParser line("dlaunch store", serve_description(), serve_footer);
  line.option("--host", "HOST", "address to listen on; * for all interfaces [127.0.0.1]", host);
  line.option("--port", "PORT", "port; 0 for any that is free [29500]", port);
  line.option("--status-interval", "S", "seconds between two status lines; 0: none [0]", interval);
  line.option("--max-key", "SIZE", "largest key [64K]", key_size);
  line.option("--max-value", "SIZE", "largest value [1G]", value_size);
  line.option("--max-total", "SIZE", "largest content in all [16G, at most half the memory]", total_size);
  StoreServe serve;
  line.option("--token-file", "FILE", "the secret that clients on other hosts must prove (or DLAUNCH_TOKEN)",
              serve.token_file);
  line.flag("--tls", "require TLS from clients on other hosts", serve.tls);
  auto parsed = line.parse(arguments);
  if (!parsed) return std::move(parsed).error();
  if (const auto* print = std::get_if<PrintAndExit>(&*parsed)) return Parsed(*print);
  if (const auto& words = std::get<CommandParser::Words>(*parsed); !words.empty())
    return mistake("'" + words.front() + "' is not an option; a command must come before its options",
                   see_help);

  serve.limits.total_bytes = usual_store_total();
  auto port_number = whole_number("--port", port, 0, 65535);
  if (!port_number) return std::move(port_number).error();
  serve.address = {host, static_cast<std::uint16_t>(*port_number)};
  auto status_interval = seconds("--status-interval", interval);
  if (!status_interval) return std::move(status_interval).error();
  serve.status_interval = *status_interval;
  const auto limit = [](const char* name, const std::string& text, std::uint64_t& into) -> Result<void> {
    if (text.empty()) return {};
    auto bytes = byte_size(name, text);
    if (!bytes) return std::move(bytes).error();
    into = *bytes;
    return {};
  };
  if (auto done = limit("--max-key", key_size, serve.limits.key_bytes); !done) return std::move(done).error();
  if (auto done = limit("--max-value", value_size, serve.limits.value_bytes); !done)
    return std::move(done).error();
  if (auto done = limit("--max-total", total_size, serve.limits.total_bytes); !done)
    return std::move(done).error();
  // One request, and one answer, must be able to hold one value.
  const std::uint64_t room = serve.limits.value_bytes + serve.limits.key_bytes + (1 << 20);
  serve.limits.request_bytes = room;
  serve.limits.answer_bytes = room;
  return Parsed(serve);
}

Result<Address> server_address(const std::string& endpoint, const Variable& variable) {
  if (!endpoint.empty()) {
    auto address = parse_address(endpoint, usual_port);
    if (!address) return mistake("--endpoint: " + address.error().message(), "give host:port");
    return address;
  }
  const auto host = variable("MASTER_ADDR");
  if (!host || host->empty()) {
    return mistake("no server given", "give --endpoint=host:port (or set MASTER_ADDR and MASTER_PORT)");
  }
  Address address{*host, usual_port};
  if (const auto port = variable("MASTER_PORT"); port && !port->empty()) {
    auto number = whole_number("MASTER_PORT", *port, 1, 65535);
    if (!number) return std::move(number).error();
    address.port = static_cast<std::uint16_t>(*number);
  }
  return address;
}

Result<Parsed> parse_request(const StoreCommand& command, const std::vector<std::string>& arguments,
                             const Variable& variable) {
  std::string endpoint;
  std::string timeout = std::to_string(command.timeout_s);
  std::string generation = "2.2";
  StoreRequest request;
  request.what = command.what;
  const std::string name(command.name);
  CommandParser line("dlaunch store " + name, "dlaunch store " + name + ": " + std::string(command.does) +
                                                  ".\n\nUsage: dlaunch store " + name + " [options] " +
                                                  std::string(command.words));
  line.option("--endpoint", "HOST:PORT", "the server [MASTER_ADDR:MASTER_PORT]", endpoint);
  line.option("--timeout", "S", "seconds to wait for keys [" + timeout + "]", timeout);
  line.option("--prefix", "PREFIX", "put PREFIX/ before every key, as PrefixStore does", request.prefix);
  line.flag("--raw", "print only the bytes of a value, without a line end", request.raw);
  line.option("--token-file", "FILE", "the store's secret (or DLAUNCH_TOKEN)", request.token_file);
  line.flag("--tls", "encrypt the connection; the store must also have --tls", request.tls);
  line.option("--generation", "V", "protocol of an old PyTorch server: 1.13, 2.1 or 2.2 [2.2]", generation);
  auto parsed = line.parse(arguments);
  if (!parsed) return std::move(parsed).error();
  if (const auto* print = std::get_if<PrintAndExit>(&*parsed)) return Parsed(*print);
  auto& words = std::get<CommandParser::Words>(*parsed);
  if (words.size() < command.least || words.size() > command.most) {
    return mistake(name + (words.size() < command.least ? " needs more arguments" : " takes fewer arguments"),
                   "dlaunch store " + name + (command.words.empty() ? "" : " ") + std::string(command.words));
  }
  request.words = std::move(words);
  if (request.what == What::add) {
    auto amount = whole_number("add", request.words[1], INT64_MIN, INT64_MAX);
    if (!amount) return std::move(amount).error();
    request.amount = *amount;
  }
  auto server = server_address(endpoint, variable);
  if (!server) return std::move(server).error();
  request.server = *server;
  auto patience = seconds("--timeout", timeout);
  if (!patience) return std::move(patience).error();
  request.timeout = *patience;
  if (generation == "1.13") {
    request.dialect = Dialect::v1_13;
  } else if (generation == "2.1") {
    request.dialect = Dialect::v2_1;
  } else if (generation != "2.2") {
    return mistake("--generation: unknown version '" + generation + "'",
                   "give 1.13 (also 2.0), 2.1, or 2.2 (and later)");
  }
  return Parsed(request);
}

}  // namespace

Result<Parsed> parse_store_options(const std::vector<std::string>& arguments, const Variable& variable) {
  if (arguments.empty() || arguments[0].starts_with("-")) return parse_serve(arguments);
  const std::string& name = arguments[0];
  const auto* command = std::find_if(store_commands.begin(), store_commands.end(),
                                     [&](const StoreCommand& c) { return c.name == name; });
  if (command == store_commands.end()) {
    std::vector<std::string> names;
    names.reserve(store_commands.size());
    for (const StoreCommand& one : store_commands) names.emplace_back(one.name);
    const std::string near = nearest(name, names);
    return mistake("store has no command '" + name + "'",
                   near.empty()
                       ? "see dlaunch store --help; to start a program named store, use dlaunch -- store"
                       : "did you mean " + near + "?");
  }
  return parse_request(*command, {arguments.begin() + 1, arguments.end()}, variable);
}

}  // namespace dlaunch::launcher
