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
  std::string_view fallback{};  // for people: what holds when nobody says anything; may be empty
  FlagGroup group = FlagGroup::other;
  bool torchrun = false;              // torchrun has it, so it may be abbreviated as there
  bool pet = false;                   // torchrun reads PET_<NAME> for it
  bool settable = true;               // by a variable and by --config, not only by the command line
  bool repeats = false;               // given twice, both count: one value a line
  std::string_view means{};           // another flag: this is only one more name for it
  bool negates = false;               // that other flag
  bool takes_truth = false;           // a switch after which =True and =False may stand
  std::string_view extra_variable{};  // one more environment variable, below the regular ones

  [[nodiscard]] bool is_switch() const { return value.empty(); }
};

std::span<const Flag> flags();

// `name` without the leading dashes, with dashes inside. nullptr: there is none.
const Flag* find_flag(std::string_view name);
const Flag* find_flag(char letter);

// The flag whose value this one sets: itself, but for a second name.
const Flag& canonical(const Flag& flag);

std::string_view title_of(FlagGroup group);
// "nproc-per-node" -> "NPROC_PER_NODE".
std::string variable_part(std::string_view flag_name);
// Those that set it, the strongest first: DLAUNCH_..., PET_..., others.
std::vector<std::string> variables_of(const Flag& flag);

}  // namespace dlaunch::launcher
