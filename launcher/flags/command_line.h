// Splits the command line into settings and the program. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/flags/settings.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

struct CommandLine {
  Settings settings;
  std::vector<std::string> program;  // and its arguments, exactly as typed
  bool help = false;
  bool version = false;
  std::optional<std::string> completion;  // the shell that --print-completion names
};

// `arguments`: without dlaunch's own name. Reads them as torchrun does: names with dashes or underscores;
// values as --name=value or --name value; -t3 and -mt3; the last value of a flag counts; a long name of one
// word may be abbreviated if that is unambiguous. The program begins at the first word that is not an option,
// or after "--".
Result<CommandLine> parse_command_line(const std::vector<std::string>& arguments);

std::string help_text();

}  // namespace dlaunch::launcher
