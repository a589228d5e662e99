// The options and words of one command (dlaunch store, dlaunch status, ...). Every mistake is reported in one
// line, with the nearest known option if there is one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/options/options.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

class CommandParser {
 public:
  using Words = std::vector<std::string>;

  // `command`: "dlaunch store", for hints. `description`: the beginning of the help text, with the usage
  // line.
  CommandParser(std::string command, const std::string& description, const std::string& footer = "");
  ~CommandParser();
  CommandParser(const CommandParser&) = delete;
  CommandParser& operator=(const CommandParser&) = delete;

  // REQUIRES: `into` lives until parse() has returned. `name` as "--port" or "-n,--lines".
  void option(const std::string& name, const std::string& type, const std::string& help, std::string& into);
  // `into` is set if the option was given, even with an empty value.
  void option(const std::string& name, const std::string& type, const std::string& help,
              std::optional<std::string>& into);
  void flag(const std::string& name, const std::string& help, bool& into);

  // Options may stand anywhere before "--". Returns the other arguments, the words.
  Result<std::variant<Words, PrintAndExit>> parse(const std::vector<std::string>& arguments);

 private:
  struct Impl;
  const std::string command_;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace dlaunch::launcher
