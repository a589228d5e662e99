// Every flag of dlaunch as data. The command line, the environment, --config, --help, the manual page's test
// and the shell completions are all made from this one table.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dlaunch::launcher {

enum class FlagGroup { workers, nodes, hosts, failure, program, output, placement, other };

struct Flag {
  std::string_view name{};      // with dashes, without the leading two
  char letter = '\0';           // of the short form
  std::string_view value{};     // what --help calls its value; empty: a switch
  std::string_view help{};      // one line
  std::string_view fallback{};  // the default, as --help prints it; may be empty
  FlagGroup group = FlagGroup::other;
  bool torchrun = false;              // torchrun has it, so its name may be abbreviated
  bool pet = false;                   // torchrun reads PET_<NAME> for it
  bool settable = true;               // also by a variable and by --config
  bool repeats = false;               // each value counts; the setting has one a line
  std::string_view means{};           // the flag that this one is an alias of
  bool negates = false;               // the alias has the opposite meaning
  bool takes_truth = false;           // a switch that accepts =True and =False
  std::string_view extra_variable{};  // a further environment variable; the regular ones take precedence

  [[nodiscard]] bool is_switch() const { return value.empty(); }
};

std::span<const Flag> flags();

// `name` without the leading dashes, with dashes inside. nullptr: there is none.
const Flag* find_flag(std::string_view name);
const Flag* find_flag(char letter);

// The flag whose value this one sets: the one it is an alias of, else itself.
const Flag& canonical(const Flag& flag);

std::string_view title_of(FlagGroup group);
// "nproc-per-node" -> "NPROC_PER_NODE".
std::string variable_part(std::string_view flag_name);
// The variables that set it, by precedence: DLAUNCH_..., PET_..., others.
std::vector<std::string> variables_of(const Flag& flag);

}  // namespace dlaunch::launcher
