#include "launcher/console/command_io.h"

#include <iostream>

namespace dlaunch::launcher {

int print(const std::string& text) {
  std::cout << text << std::flush;
  return std::cout ? 0 : fail("cannot write to standard output");
}

void note(const std::string& sentence) { std::cerr << "dlaunch: " << sentence << '\n'; }

int fail(const std::string& sentence) {
  note(sentence);
  return exit_error;
}

int fail(const Error& error) {
  fail(error.message());
  return error.kind == ErrorKind::invalid ? exit_usage : exit_error;
}

}  // namespace dlaunch::launcher
