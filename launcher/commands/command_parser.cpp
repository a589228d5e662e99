#include "launcher/commands/command_parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "launcher/flags/spelling.h"
#include "launcher/flags/value_parsers.h"

namespace dlaunch::launcher {
namespace {

constexpr const char* group = "Options";

// The description has its own usage line.
class PlainFormat final : public CLI::Formatter {
 public:
  PlainFormat() { column_width(36); }
  std::string make_usage(const CLI::App*, std::string) const override { return ""; }
};

// CLI11 leaves two empty lines between groups; one is enough.
std::string help_text(const CLI::App& app) {
  std::string text = app.help();
  for (auto at = text.find("\n\n\n"); at != std::string::npos; at = text.find("\n\n\n", at))
    text.erase(at, 1);
  return text;
}

// "--max_value=a_b" -> "--max-value=a_b".
std::string with_dashes(const std::string& token) {
  std::string spelled = token;
  const auto end = spelled.begin() + static_cast<std::ptrdiff_t>(std::min(spelled.find('='), spelled.size()));
  std::replace(spelled.begin() + 1, end, '_', '-');
  return spelled;
}

bool is_option(const std::string& token) {
  return token.size() > 1 && token[0] == '-' && std::isdigit(static_cast<unsigned char>(token[1])) == 0;
}

}  // namespace

struct CommandParser::Impl {
  explicit Impl(const std::string& description) : app(description) {}
  CLI::App app;
};

CommandParser::CommandParser(std::string command, const std::string& description, const std::string& footer)
    : command_(std::move(command)), impl_(std::make_unique<Impl>(description)) {
  impl_->app.formatter(std::make_shared<PlainFormat>());
  impl_->app.footer(footer);
  impl_->app.set_help_flag("-h,--help", "print this help")->group(group);
}

CommandParser::~CommandParser() = default;

void CommandParser::option(const std::string& name, const std::string& type, const std::string& help,
                           std::string& into) {
  impl_->app.add_option(name, into, help)->type_name(type)->group(group);
}

void CommandParser::option(const std::string& name, const std::string& type, const std::string& help,
                           std::optional<std::string>& into) {
  impl_->app
      .add_option_function<std::string>(
          name, [&into](const std::string& value) { into = value; }, help)
      ->type_name(type)
      ->group(group);
}

void CommandParser::flag(const std::string& name, const std::string& help, bool& into) {
  impl_->app.add_flag(name, into, help)->group(group);
}

Result<std::variant<CommandParser::Words, PrintAndExit>> CommandParser::parse(
    const std::vector<std::string>& arguments) {
  using Parsed = std::variant<Words, PrintAndExit>;
  CLI::App& app = impl_->app;
  const std::string see_help = "see " + command_ + " --help";
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  Words words;
  std::vector<std::string> own;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--") {
      words.insert(words.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments.end());
      break;
    }
    if (!is_option(arguments[i])) {
      words.push_back(arguments[i]);
      continue;
    }
    const std::string spelled = with_dashes(arguments[i]);
    const std::string name = spelled.substr(0, spelled.find('='));
    const CLI::Option* option = app.get_option_no_throw(name);
    if (option == nullptr) {
      const std::string near = nearest(name, known);
      return usage("unknown option " + name, "", near.empty() ? see_help : "did you mean " + near + "?");
    }
    own.push_back(spelled);
    if (option->get_expected_min() == 0 || name != spelled) continue;
    if (i + 1 == arguments.size()) return usage(name + " needs a value", "", see_help);
    own.push_back(arguments[++i]);
  }
  try {
    std::reverse(own.begin(), own.end());
    app.parse(std::move(own));
  } catch (const CLI::CallForHelp&) {
    return Parsed(PrintAndExit{help_text(app)});
  } catch (const CLI::ParseError& mistake) {
    return usage(mistake.what(), "", see_help);
  }
  return Parsed(std::move(words));
}

}  // namespace dlaunch::launcher
