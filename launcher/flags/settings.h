// What was asked for, flag by flag, and by whom. Each source (command line, variables, file, scheduler) gives
// Settings of its own; laid over each other, the stronger hides the weaker.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/flags/flag_table.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

enum class Origin { scheduler, config, environment, command_line };  // the weakest first

struct Setting {
  std::string value;  // as given; a switch is "true" or "false"
  Origin origin = Origin::command_line;
  std::string from;  // where a person finds it again: "--nnodes", "PET_NNODES", "nnodes in job.json"

  bool operator==(const Setting&) const = default;
};

using Settings = std::map<std::string, Setting, std::less<>>;  // by the canonical flag's name
using EnvironmentMap = std::map<std::string, std::string, std::less<>>;

// The value for an existing flag: a switch's word is understood, a second name's negation is applied.
Result<Setting> make_setting(const Flag& flag, std::string value, Origin origin, std::string from);

// Keeps what `settings` has already.
void add_weaker(Settings& settings, Settings weaker);

// DLAUNCH_* go before PET_*, these before others. An empty variable counts as unset.
Result<Settings> settings_from(const EnvironmentMap& environment);

// Of variables that resemble a flag's and set none ("PET_NPROC=3"): what is probably meant, a sentence each.
std::vector<std::string> mistyped(const EnvironmentMap& environment);

// nullptr: nobody said anything.
const Setting* find(const Settings& settings, std::string_view flag);

}  // namespace dlaunch::launcher
