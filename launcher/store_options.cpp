#include "launcher/store_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "launcher/spelling.h"

namespace dlaunch::launcher {
namespace {

using What = StoreAsk::What;
using Parsed = std::variant<StoreServe, StoreAsk, JustPrint>;

constexpr std::uint16_t usual_port = 29500;
constexpr double longest_time = 7.0 * 24 * 3600;

Error usage(std::string what, std::string hint = "see dlaunch store --help") {
  return {ErrorKind::invalid, std::move(what), "", "", std::move(hint)};
}

// The commands: how many words each takes, and how long its keys are waited for.
struct Command {
  std::string_view name;
  What what;
  std::string_view words;
  std::size_t least;
  std::size_t most;
  int timeout_s;
  std::string_view does;
};
constexpr std::size_t any_number = 100'000;
constexpr std::array commands = {
    Command{"get", What::get, "KEY", 1, 1, 0, "print the key's value"},
    Command{"set", What::set, "KEY VALUE", 2, 2, 0, "store the value; - reads it from standard input"},
    Command{"add", What::add, "KEY AMOUNT", 2, 2, 0, "add to the number at the key, and print the sum"},
    Command{"append", What::append, "KEY VALUE", 2, 2, 0,
            "put the value behind the one that is there; - as for set"},
    Command{"compare-set", What::compare_set, "KEY EXPECTED VALUE", 3, 3, 0,
            "store the value if the expected one (or '' for none) is there; print what is"},
    Command{"check", What::check, "KEY ...", 1, any_number, 0, "exit with 0 if all the keys are there"},
    Command{"wait", What::wait, "KEY ...", 1, any_number, 300, "wait until all the keys are there"},
    Command{"keys", What::keys, "", 0, 0, 0, "print all keys, one a line"},
    Command{"num-keys", What::num_keys, "", 0, 0, 0, "print how many keys there are"},
    Command{"delete", What::delete_key, "KEY", 1, 1, 0, "remove the key"},
};

std::string serve_description() {
  std::string text =
      "dlaunch store serves a key-value store in PyTorch's TCPStore protocol (all versions from 1.13 on),\n"
      "with /healthz, /status and /metrics over HTTP on the same port. With a command it asks such a "
      "server:\n"
      "ours, a running job's, or PyTorch's.\n\n"
      "Usage: dlaunch store [options]\n"
      "       dlaunch store COMMAND [options] [words ...]\n\n"
      "Commands:\n";
  for (const Command& command : commands) {
    std::string line = "  " + std::string(command.name) + " " + std::string(command.words);
    line.resize(std::max<std::size_t>(line.size() + 1, 36), ' ');
    text += line + std::string(command.does) + "\n";
  }
  return text;
}

constexpr const char* serve_footer =
    "A store has no password: whoever reaches its port reads and writes. It stops on SIGTERM or Ctrl-C.\n"
    "A program named store is started with: dlaunch -- store\n"
    "Manual: man dlaunch-store";

class PlainFormat final : public CLI::Formatter {
 public:
  PlainFormat() { column_width(36); }
  std::string make_usage(const CLI::App*, std::string) const override { return ""; }
};

std::string help_text(const CLI::App& app) {
  std::string text = app.help();
  for (auto at = text.find("\n\n\n"); at != std::string::npos; at = text.find("\n\n\n", at))
    text.erase(at, 1);
  return text;
}

// Options are taken wherever they stand, until "--"; what is left are the words. A number may be negative.
Result<std::vector<std::string>> take_options(const CLI::App& app, const std::vector<std::string>& arguments,
                                              std::vector<std::string>& own) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& token = arguments[i];
    if (token == "--") {
      words.insert(words.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments.end());
      break;
    }
    const bool is_option =
        token.size() > 1 && token[0] == '-' && std::isdigit(static_cast<unsigned char>(token[1])) == 0;
    if (!is_option) {
      words.push_back(token);
      continue;
    }
    std::string spelled = token;
    const auto name_end =
        spelled.begin() + static_cast<std::ptrdiff_t>(std::min(spelled.find('='), spelled.size()));
    std::replace(spelled.begin() + 1, name_end, '_', '-');
    const std::string name = spelled.substr(0, spelled.find('='));
    const CLI::Option* option = app.get_option_no_throw(name);
    if (option == nullptr) {
      const std::string near = nearest(name, known);
      return usage("unknown option " + name, near.empty()
                                                 ? "see --help; a word that begins with - goes behind --"
                                                 : "did you mean " + near + "?");
    }
    own.push_back(spelled);
    if (option->get_expected_min() == 0 || name != spelled) continue;
    if (i + 1 == arguments.size()) return usage(name + " needs a value");
    own.push_back(arguments[++i]);
  }
  return words;
}

// Nothing: `app` has been parsed. A text: print it and end.
Result<std::optional<JustPrint>> parse(CLI::App& app, std::vector<std::string> own) {
  try {
    std::reverse(own.begin(), own.end());
    app.parse(std::move(own));
  } catch (const CLI::CallForHelp&) {
    return std::optional<JustPrint>(JustPrint{help_text(app)});
  } catch (const CLI::ParseError& mistake) {
    return usage(mistake.what());
  }
  return std::optional<JustPrint>();
}

template <class T>
Result<T> whole_number(const std::string& name, const std::string& text, T least, T most) {
  T value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size())
    return usage(name + ": '" + text + "' is not a whole number");
  if (value < least || value > most)
    return usage(name + ": " + text + " is out of range",
                 "it goes from " + std::to_string(least) + " to " + std::to_string(most));
  return value;
}

Result<Duration> seconds(const std::string& name, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value) || value < 0 || value > longest_time)
    return usage(name + ": '" + text + "' is no time", "give seconds from 0 to 604800");
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

// "1073741824", "64K", "512M", "1.5G": with K, M, G and T of 1024.
Result<std::uint64_t> size(const std::string& name, const std::string& text) {
  constexpr std::string_view units = "KMGT";
  constexpr double largest = 1ULL << 50;
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (const auto unit = *end == '\0' ? std::string_view::npos : units.find(*end); unit != units.npos) {
    value *= static_cast<double>(std::uint64_t{1} << (10 * (unit + 1)));
    ++end;
  }
  if (end == text.c_str() || *end != '\0' || !(value >= 1 && value <= largest))
    return usage(name + ": '" + text + "' is no size", "give bytes, or for example 512M");
  return static_cast<std::uint64_t>(value);
}

Result<Parsed> parse_serve(const std::vector<std::string>& arguments) {
  std::string host = "127.0.0.1";
  std::string port = std::to_string(usual_port);
  std::string interval = "0";
  std::string key_size;
  std::string value_size;
  std::string total_size;
  CLI::App app(serve_description());
  app.formatter(std::make_shared<PlainFormat>());
  app.footer(serve_footer);
  app.set_help_flag("-h,--help", "print this help");
  const char* group = "Serving";
  app.add_option("--host", host, "address to listen on; * for all interfaces [127.0.0.1]")
      ->type_name("HOST")
      ->group(group);
  app.add_option("--port", port, "port; 0 for any that is free [29500]")->type_name("PORT")->group(group);
  app.add_option("--status-interval", interval, "a status line every so many seconds; 0 for none [0]")
      ->type_name("S")
      ->group(group);
  app.add_option("--max-key", key_size, "largest key [64K]")->type_name("SIZE")->group(group);
  app.add_option("--max-value", value_size, "largest value [1G]")->type_name("SIZE")->group(group);
  app.add_option("--max-total", total_size, "most that all clients together may store [16G]")
      ->type_name("SIZE")
      ->group(group);

  std::vector<std::string> own;
  auto words = take_options(app, arguments, own);
  if (!words) return std::move(words).error();
  auto print = parse(app, std::move(own));
  if (!print) return std::move(print).error();
  if (*print) return Parsed(**print);
  if (!words->empty()) return usage("a command stands before its options: '" + words->front() + "'");

  StoreServe serve;
  auto port_number = whole_number<int>("--port", port, 0, 65535);
  if (!port_number) return std::move(port_number).error();
  serve.address = {host, static_cast<std::uint16_t>(*port_number)};
  auto status_interval = seconds("--status-interval", interval);
  if (!status_interval) return std::move(status_interval).error();
  serve.status_interval = *status_interval;
  const auto limit = [](const char* name, const std::string& text, std::uint64_t& into) -> Result<void> {
    if (text.empty()) return {};
    auto bytes = size(name, text);
    if (!bytes) return std::move(bytes).error();
    into = *bytes;
    return {};
  };
  if (auto done = limit("--max-key", key_size, serve.limits.key_bytes); !done) return std::move(done).error();
  if (auto done = limit("--max-value", value_size, serve.limits.value_bytes); !done)
    return std::move(done).error();
  if (auto done = limit("--max-total", total_size, serve.limits.total_bytes); !done)
    return std::move(done).error();
  // One request, and one answer, must have room for one value.
  const std::uint64_t room = serve.limits.value_bytes + serve.limits.key_bytes + (1 << 20);
  serve.limits.request_bytes = room;
  serve.limits.answer_bytes = room;
  return Parsed(serve);
}

Result<Address> server_address(const std::string& endpoint, const Variable& variable) {
  if (!endpoint.empty()) {
    auto address = parse_address(endpoint, usual_port);
    if (!address) return usage("--endpoint: " + address.error().message(), "give host:port");
    return address;
  }
  const auto host = variable("MASTER_ADDR");
  if (!host || host->empty()) {
    return usage("no server given",
                 "say where it is: --endpoint=host:port (or set MASTER_ADDR and MASTER_PORT)");
  }
  Address address{*host, usual_port};
  if (const auto port = variable("MASTER_PORT"); port && !port->empty()) {
    auto number = whole_number<int>("MASTER_PORT", *port, 1, 65535);
    if (!number) return std::move(number).error();
    address.port = static_cast<std::uint16_t>(*number);
  }
  return address;
}

Result<Parsed> parse_ask(const Command& command, const std::vector<std::string>& arguments,
                         const Variable& variable) {
  std::string endpoint;
  std::string timeout = std::to_string(command.timeout_s);
  std::string generation = "2.2";
  StoreAsk ask;
  ask.what = command.what;
  const std::string name(command.name);
  CLI::App app("dlaunch store " + name + ": " + std::string(command.does) + ".\n\nUsage: dlaunch store " +
               name + " [options] " + std::string(command.words));
  app.formatter(std::make_shared<PlainFormat>());
  app.set_help_flag("-h,--help", "print this help");
  const char* group = "Options";
  app.add_option("--endpoint", endpoint, "the server [MASTER_ADDR:MASTER_PORT]")
      ->type_name("HOST:PORT")
      ->group(group);
  app.add_option("--timeout", timeout, "seconds to wait for keys [" + timeout + "]")
      ->type_name("S")
      ->group(group);
  app.add_option("--prefix", ask.prefix, "put PREFIX/ before every key, as PrefixStore does")
      ->type_name("PREFIX")
      ->group(group);
  app.add_flag("--raw", ask.raw, "print a value's bytes only, without a line end")->group(group);
  app.add_option("--generation", generation, "what an old PyTorch server speaks: 1.13, 2.1 or 2.2 [2.2]")
      ->type_name("V")
      ->group(group);

  std::vector<std::string> own;
  auto words = take_options(app, arguments, own);
  if (!words) return std::move(words).error();
  auto print = parse(app, std::move(own));
  if (!print) return std::move(print).error();
  if (*print) return Parsed(**print);
  if (words->size() < command.least || words->size() > command.most) {
    return usage(name + (words->size() < command.least ? " needs more words" : " takes fewer words"),
                 "dlaunch store " + name + (command.words.empty() ? "" : " ") + std::string(command.words));
  }
  ask.words = std::move(*words);
  if (ask.what == What::add) {
    auto amount = whole_number<std::int64_t>("add", ask.words[1], INT64_MIN, INT64_MAX);
    if (!amount) return std::move(amount).error();
    ask.amount = *amount;
  }
  auto server = server_address(endpoint, variable);
  if (!server) return std::move(server).error();
  ask.server = *server;
  auto patience = seconds("--timeout", timeout);
  if (!patience) return std::move(patience).error();
  ask.timeout = *patience;
  if (generation == "1.13") {
    ask.dialect = Dialect::v1_13;
  } else if (generation == "2.1") {
    ask.dialect = Dialect::v2_1;
  } else if (generation != "2.2") {
    return usage("--generation: '" + generation + "' is not known",
                 "give 1.13 (also 2.0), 2.1, or 2.2 (and later)");
  }
  return Parsed(ask);
}

}  // namespace

Result<Parsed> parse_store_options(const std::vector<std::string>& arguments, const Variable& variable) {
  if (arguments.empty() || arguments[0].starts_with("-")) return parse_serve(arguments);
  const std::string& name = arguments[0];
  const auto* command =
      std::find_if(commands.begin(), commands.end(), [&](const Command& c) { return c.name == name; });
  if (command == commands.end()) {
    std::vector<std::string> names;
    for (const Command& one : commands) names.emplace_back(one.name);
    const std::string near = nearest(name, names);
    return usage("store has no command '" + name + "'",
                 near.empty()
                     ? "see dlaunch store --help; a program of that name is started with dlaunch -- store"
                     : "did you mean " + near + "?");
  }
  return parse_ask(*command, {arguments.begin() + 1, arguments.end()}, variable);
}

}  // namespace dlaunch::launcher
