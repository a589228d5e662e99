// The command line: what is set by flags, and where the program begins.
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

// `arguments` without dlaunch's own name. As torchrun reads them: names with dashes or underscores, values as
// --name=value or --name value, -t3 and -mt3, the last of several wins, and a long name of one word may be
// abbreviated as long as it is the only one. The first word that is no option, or what follows "--", begins
// the program.
Result<CommandLine> parse_command_line(const std::vector<std::string>& arguments);

std::string help_text();

}  // namespace dlaunch::launcher
