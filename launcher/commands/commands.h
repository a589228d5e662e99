// The commands of dlaunch (status, stop, ...): words in the place of the program.
#pragma once

#include <string>
#include <vector>

namespace dlaunch::launcher {

struct Command {
  std::string name;
  std::string does;  // for --help, a line
  // `arguments`: what follows the command. Returns the exit code: 0, 1 if it failed, 2 for a mistake on the
  // command line. A failure is reported in one line on stderr.
  int (*run)(const std::vector<std::string>& arguments);
};

const std::vector<Command>& commands();
// Null: not a command, so it is a program.
const Command* find_command(const std::string& name);

}  // namespace dlaunch::launcher
