#include "launcher/settings.h"

#include <array>

#include "launcher/values.h"

namespace dlaunch::launcher {

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
    for (const Flag& flag : flags()) {
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

const Setting* find(const Settings& settings, std::string_view flag) {
  const auto found = settings.find(flag);
  return found == settings.end() ? nullptr : &found->second;
}

}  // namespace dlaunch::launcher
