#include "launcher/options/options.h"

#include "launcher/flags/command_line.h"
#include "launcher/flags/config_file.h"
#include "launcher/flags/value_parsers.h"
#include "launcher/options/options_from_settings.h"

namespace dlaunch::launcher {
namespace {

Result<Settings> settings_from_file(const Settings& settings, const Dependencies& dependencies) {
  const Setting* config = find(settings, "config");
  if (!config) return Settings{};
  auto text = dependencies.read_file(config->value);
  if (!text) return usage(config->from + ": cannot read " + config->value, text.error().why, "");
  return settings_from_json(*text, config->value);
}

// A user who sets this wants nothing to be started, so it is not ignored.
Result<void> refuse_dry_run(const EnvironmentMap& environment) {
  const auto found = environment.find("DLAUNCH_DRY_RUN");
  if (found == environment.end() || switch_word(found->second) != true) return {};
  return usage("DLAUNCH_DRY_RUN=" + found->second + ": a dry run can be requested on the command line only",
               "", "write dlaunch --dry-run, or unset the variable");
}

// Adds the settings that the command line does not have.
Result<DetectedScheduler> complete(Settings& settings, const Dependencies& dependencies) {
  if (find(settings, "lifeline")) return DetectedScheduler{};
  if (auto meant = refuse_dry_run(dependencies.scheduler_env.environment); !meant)
    return std::move(meant).error();
  auto variables = settings_from(dependencies.scheduler_env.environment);
  if (!variables) return std::move(variables).error();
  add_weaker(settings, std::move(*variables));
  auto file = settings_from_file(settings, dependencies);
  if (!file) return std::move(file).error();
  add_weaker(settings, std::move(*file));
  auto detected = detect_scheduler(dependencies.scheduler_env, settings);
  if (!detected) {
    // A mistake of the user is reported before its consequences.
    auto own = options_from_settings(settings);
    return own ? std::move(detected).error() : std::move(own).error();
  }
  add_weaker(settings, std::move(detected->settings));
  for (std::string& sentence : mistyped(dependencies.scheduler_env.environment))
    detected->warnings.push_back(std::move(sentence));
  return detected;
}

std::string origin_of(const Setting& setting) {
  switch (setting.origin) {
    case Origin::command_line:
      return "command line";
    case Origin::environment:
      return "variable " + setting.from;
    case Origin::config:
      return "file: " + setting.from;
    case Origin::scheduler:
      return "scheduler: " + setting.from;
  }
  return "";
}

}  // namespace

Result<ParsedOptions> parse_options(const std::vector<std::string>& arguments,
                                    const Dependencies& dependencies) {
  using Parsed = ParsedOptions;
  auto line = parse_command_line(arguments);
  if (!line) return std::move(line).error();
  if (line->help) return Parsed(PrintAndExit{help_text()});
  if (line->version) return Parsed(PrintVersion{});
  if (line->completion) return Parsed(PrintCompletion{*line->completion});

  Settings settings = std::move(line->settings);
  auto detected = complete(settings, dependencies);
  if (!detected) return std::move(detected).error();

  auto options = options_from_settings(settings);
  if (!options) return std::move(options).error();
  options->settings = std::move(settings);
  if (!detected->notice.empty()) options->notices.push_back(std::move(detected->notice));
  options->warnings.insert(options->warnings.end(), detected->warnings.begin(), detected->warnings.end());
  if (options->hosts.empty() && options->hostfile.empty() && !options->lifeline) {
    for (const std::string& name : options->exports) {
      if (name.find('=') == std::string::npos && !dependencies.scheduler_env.environment.contains(name))
        options->warnings.push_back("--export: " + name + " is not set here");
    }
  }
  options->program = std::move(line->program);
  if (options->program.empty())
    return usage("no program given", "", "name the program: dlaunch [options] program [arguments ...]");
  return Parsed(std::move(*options));
}

std::string describe_settings(const Options& options) {
  std::string out;
  for (const Flag& flag : flags()) {
    if (!flag.settable || !flag.means.empty()) continue;
    const Setting* setting = find(options.settings, flag.name);
    std::string line = "  " + std::string(flag.name);
    line.resize(std::max<std::size_t>(line.size() + 1, 28), ' ');
    if (setting) {
      line += setting->value + " (" + origin_of(*setting) + ")";
    } else if (flag.is_switch()) {
      line += "false (default)";
    } else {
      line += (flag.fallback.empty() ? "-" : std::string(flag.fallback)) + " (default)";
    }
    out += line + "\n";
  }
  return out;
}

}  // namespace dlaunch::launcher
