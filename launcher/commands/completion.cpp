#include "launcher/commands/completion.h"

#include <algorithm>
#include <utility>

#include "launcher/commands/commands.h"
#include "launcher/commands/completion_templates.h"
#include "launcher/flags/flag_table.h"
#include "launcher/flags/value_parsers.h"

namespace dlaunch::launcher {
namespace {

// In single quotes, as all three shells read them.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

// "nproc-per-node" -> "nproc_per_node": torchrun accepts both spellings.
std::string underscored(std::string_view name) {
  std::string other(name);
  std::replace(other.begin(), other.end(), '-', '_');
  return other;
}

bool is_file(const Flag& flag) { return flag.value == "FILE" || flag.value == "DIR"; }

// "N|auto|cpu|gpu" -> "auto", "cpu", "gpu": the words in small letters can be proposed.
std::vector<std::string> choices_of(const Flag& flag) {
  std::vector<std::string> choices;
  std::string word;
  const auto end_word = [&] {
    const bool is_choice = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
      return std::islower(c) != 0 || c == '-' || c == '_';
    });
    if (is_choice) choices.push_back(word);
    word.clear();
  };
  for (const char c : flag.value) {
    if (c == '|') {
      end_word();
    } else {
      word += c;
    }
  }
  end_word();
  return choices;
}

std::string command_names(const std::string& separator) {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.push_back(command.name);
  return join(names, separator);
}

std::string short_name(const Flag& flag) { return std::string("-") + flag.letter; }
std::string long_name(const Flag& flag) { return "--" + std::string(flag.name); }

// `parts`: the name of each placeholder, without its @ signs, and its text.
using Parts = std::vector<std::pair<std::string, std::string>>;

// The template with each @name@ replaced. A replacement's own text is not searched for placeholders.
std::string fill(std::string_view pattern, const Parts& parts) {
  std::string text;
  while (!pattern.empty()) {
    const auto part = std::find_if(parts.begin(), parts.end(), [&](const auto& one) {
      return pattern.starts_with("@" + one.first + "@");
    });
    if (part == parts.end()) {
      text += pattern.front();
      pattern.remove_prefix(1);
    } else {
      text += part->second;
      pattern.remove_prefix(part->first.size() + 2);
    }
  }
  return text;
}

// The parts of every script. Only a run of dlaunch knows the words of @options@, the long options in a
// command's help, and of @jobs@, the ids of the jobs that run here. `program` and `command`: how the shell
// names its words.
Parts common_parts(const std::string& program, const std::string& command) {
  return {{"commands", command_names("|")},
          {"job_commands", "status|top|stop|logs|dump|trace"},
          {"options",
           program + " " + command + R"( --help 2>/dev/null | sed -nE 's/^ +(-.,)?(--[a-z-]+).*/\2/p')"},
          {"jobs",
           program + R"( status 2>/dev/null | awk 'NR > 1 && /^[^ ]/ && !/ does not answer: / {print $1}')"}};
}

// "--log-dir" and its like, underscored on request.
std::vector<std::string> flag_names(bool underscores) {
  std::vector<std::string> names;
  for (const Flag& flag : flags())
    names.push_back("--" + (underscores ? underscored(flag.name) : std::string(flag.name)));
  return names;
}

std::string bash() {
  std::vector<std::string> with_value;
  std::string cases;
  for (const Flag& flag : flags()) {
    if (flag.is_switch()) continue;
    const std::string names = long_name(flag) + (flag.letter == '\0' ? "" : "|" + short_name(flag));
    with_value.push_back(names);
    const auto choices = choices_of(flag);
    if (choices.empty() && !is_file(flag)) continue;
    const std::string source = choices.empty() ? "-f" : "-W " + shell_quoted(join(choices, " "));
    cases.append("    ").append(names).append(") COMPREPLY=($(compgen ").append(source);
    cases += " -- \"$cur\")); return ;;\n";
  }
  Parts parts = common_parts("${COMP_WORDS[0]}", "${COMP_WORDS[1]}");
  parts.insert(parts.end(), {{"with_value", join(with_value, "|")},
                             {"cases", cases},
                             {"flags", shell_quoted(join(flag_names(false), " "))},
                             {"underscored_flags", shell_quoted(join(flag_names(true), " "))},
                             {"command_words", shell_quoted(command_names(" "))}});
  return fill(bash_template, parts);
}

// zsh's specifications give a meaning to colons and brackets.
std::string zsh_escaped(std::string_view help) {
  std::string out;
  for (const char c : help) {
    if (c == ':' || c == '[' || c == ']') out += '\\';
    out += c;
  }
  return out;
}

// ":FILE:_files": the value's name, and what completes it.
std::string zsh_value(const Flag& flag) {
  if (flag.is_switch()) return "";
  const auto choices = choices_of(flag);
  return ":" + zsh_escaped(flag.value) + ":" +
         (!choices.empty() ? "(" + join(choices, " ") + ")"
          : is_file(flag)  ? "_files"
                           : " ");
}

std::string zsh() {
  std::string specs;
  for (const Flag& flag : flags()) {
    const std::string help_and_value = "[" + zsh_escaped(flag.help) + "]" + zsh_value(flag);
    std::vector<std::string> spellings = {long_name(flag) + (flag.is_switch() ? "" : "=")};
    if (flag.letter != '\0') spellings.push_back(short_name(flag));
    for (const std::string& spelling : spellings)
      specs += "    " + shell_quoted(spelling + help_and_value) + " \\\n";
  }
  Parts parts = common_parts("$words[1]", "$words[2]");
  parts.insert(parts.end(), {{"flag_specs", specs}, {"command_words", command_names(" ")}});
  return fill(zsh_template, parts);
}

std::string fish_flag(const Flag& flag) {
  std::string line = "complete -c dlaunch -n __dlaunch_no_program -l " + std::string(flag.name);
  if (flag.letter != '\0') line += std::string(" -s ") + flag.letter;
  if (!flag.is_switch()) {
    const auto choices = choices_of(flag);
    line += is_file(flag) ? " -r -F" : " -x";
    if (!choices.empty()) line += " -a " + shell_quoted(join(choices, " "));
  }
  return line + " -d " + shell_quoted(flag.help) + "\n";
}

std::string fish() {
  std::string with_value;
  std::string complete_flags;
  std::vector<std::string> underscored_flags;
  for (const Flag& flag : flags()) {
    complete_flags += fish_flag(flag);
    if (flag.name.find('-') != std::string_view::npos)
      underscored_flags.push_back("--" + underscored(flag.name));
    if (flag.is_switch()) continue;
    with_value += " " + long_name(flag) + (flag.letter == '\0' ? "" : " " + short_name(flag));
  }
  std::string complete_commands;
  for (const Command& command : commands())
    complete_commands += "complete -c dlaunch -n __dlaunch_first -a " + command.name + " -d " +
                         shell_quoted(command.does) + "\n";
  Parts parts = common_parts("command $words[1]", "$words[2]");
  parts.insert(parts.end(), {{"with_value", with_value},
                             {"complete_commands", complete_commands},
                             {"complete_flags", complete_flags},
                             {"underscored_flags", shell_quoted(join(underscored_flags, " "))}});
  return fill(fish_template, parts);
}

}  // namespace

Result<std::string> completion_script(const std::string& shell) {
  if (shell == "bash") return bash();
  if (shell == "zsh") return zsh();
  if (shell == "fish") return fish();
  return mistake("no completion script for the shell '" + shell + "'", "choose bash, zsh or fish");
}

}  // namespace dlaunch::launcher
