// The words that may stand in the program's place.
#pragma once

#include <string>
#include <vector>

namespace dlaunch::launcher {

struct Command {
  std::string name;
  std::string does;  // for --help, a line
  // `arguments`: what follows the command. Returns the exit code: 0, 1 for what failed, 2 for a mistake on
  // the command line; what failed is said in one line on stderr.
  int (*run)(const std::vector<std::string>& arguments);
};

const std::vector<Command>& commands();
// Null: no command, but a program.
const Command* find_command(const std::string& name);

}  // namespace dlaunch::launcher
