// The flags that are set, with their values and sources. Each source (command line, variables, file,
// scheduler) gives Settings of its own; for each flag, the source of the highest precedence counts. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/flags/flag_table.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

enum class Origin { scheduler, config, environment, command_line };  // the lowest precedence first

struct Setting {
  std::string value;  // as given; a switch is "true" or "false"
  Origin origin = Origin::command_line;
  std::string from;  // where the user finds it: "--nnodes", "PET_NNODES", "nnodes in job.json"

  bool operator==(const Setting&) const = default;
};

using Settings = std::map<std::string, Setting, std::less<>>;  // by the canonical flag's name
using EnvironmentMap = std::map<std::string, std::string, std::less<>>;

// Makes the setting of `flag`: a switch's word becomes "true" or "false", inverted if the flag is an alias
// that negates.
Result<Setting> make_setting(const Flag& flag, std::string value, Origin origin, std::string from);

// Adds the flags that `settings` does not have.
void add_weaker(Settings& settings, Settings weaker);

// DLAUNCH_* take precedence over PET_*, and these over others. An empty variable counts as unset.
Result<Settings> settings_from(const EnvironmentMap& environment);

// For each variable that resembles a flag's but sets none ("PET_NPROC=3"), a sentence: what it may mean.
std::vector<std::string> mistyped(const EnvironmentMap& environment);

// nullptr: it is not set.
const Setting* find(const Settings& settings, std::string_view flag);

}  // namespace dlaunch::launcher
