#include "launcher/flags/settings.h"

#include <array>
#include <cctype>
#include <set>

#include "launcher/flags/spelling.h"
#include "launcher/flags/value_parsers.h"
#include "store/contract/worker_env.h"

namespace dlaunch::launcher {
namespace {

// "NPROC_PER_NODE" -> "nproc-per-node".
std::string flag_name(std::string part) {
  for (char& c : part) c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return part;
}

bool has_any(const EnvironmentMap& environment, std::string_view prefix) {
  const auto first = environment.lower_bound(prefix);
  return first != environment.end() && first->first.starts_with(prefix);
}

}  // namespace

Result<Setting> make_setting(const Flag& flag, std::string value, Origin origin, std::string from) {
  if (!flag.is_switch()) return Setting{std::move(value), origin, std::move(from)};
  const auto on = switch_word(value);
  if (!on) {
    return usage(from + ": '" + value + "' is neither true nor false", "",
                 "write 1, true or yes; or 0, false or no");
  }
  return Setting{*on != flag.negates ? "true" : "false", origin, std::move(from)};
}

void add_weaker(Settings& settings, Settings weaker) { settings.merge(weaker); }

Result<Settings> settings_from(const EnvironmentMap& environment) {
  constexpr std::array prefixes{"DLAUNCH_", "PET_", ""};
  Settings out;
  for (const std::string_view prefix : prefixes) {
    if (!has_any(environment, prefix)) continue;  // making the names of all flags takes longest
    for (const Flag& flag : flags()) {
      if (prefix.empty() && flag.extra_variable.empty()) continue;
      for (const std::string& variable : variables_of(flag)) {
        const bool of_this_turn = prefix.empty() || variable.starts_with(prefix);
        const auto found = of_this_turn ? environment.find(variable) : environment.end();
        if (found == environment.end() || found->second.empty()) continue;
        auto setting = make_setting(flag, found->second, Origin::environment, variable);
        if (!setting) return std::move(setting).error();
        out.emplace(canonical(flag).name, std::move(*setting));
      }
    }
  }
  return out;
}

std::vector<std::string> mistyped(const EnvironmentMap& environment) {
  if (!has_any(environment, "DLAUNCH_") && !has_any(environment, "PET_")) return {};
  std::vector<std::string> names;
  // The secret, which no flag sets, and the variables that dlaunch sets for workers.
  std::set<std::string, std::less<>> known{"DLAUNCH_TOKEN"};
  for (const std::string_view own :
       {env::version, env::job_id, env::round, env::fencing_token, env::worker_page, env::store_key_file})
    known.emplace(own);
  for (const Flag& flag : flags()) {
    if (flag.settable) names.emplace_back(flag.name);
    for (std::string& variable : variables_of(flag)) known.insert(std::move(variable));
  }
  std::vector<std::string> sentences;
  for (const auto& [variable, value] : environment) {
    const bool is_pet = variable.starts_with("PET_");
    if ((!is_pet && !variable.starts_with("DLAUNCH_")) || value.empty() || known.contains(variable)) continue;
    std::vector<std::string> meant;
    for (const std::string& name : likely(flag_name(variable.substr(variable.find('_') + 1)), names)) {
      const auto variables = variables_of(*find_flag(name));
      meant.push_back(is_pet && find_flag(name)->pet ? variables.at(1) : variables.front());
    }
    if (meant.empty()) continue;
    sentences.push_back(variable + " has no effect; did you mean " + join(meant, " or ") + "?");
  }
  return sentences;
}

const Setting* find(const Settings& settings, std::string_view flag) {
  const auto found = settings.find(flag);
  return found == settings.end() ? nullptr : &found->second;
}

}  // namespace dlaunch::launcher
