#include "launcher/commands/completion.h"

#include <algorithm>

#include "launcher/commands/commands.h"
#include "launcher/flags/flag_table.h"
#include "launcher/flags/value_parsers.h"

namespace dlaunch::launcher {
namespace {

// For single quotes of all three shells.
std::string quoted(std::string_view text) {
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

// "nproc_per_node", as torchrun also spells it.
std::string underscored(std::string_view name) {
  std::string other(name);
  std::replace(other.begin(), other.end(), '-', '_');
  return other;
}

bool is_file(const Flag& flag) { return flag.value == "FILE" || flag.value == "DIR"; }

// "auto|cpu|gpu" of "N|auto|cpu|gpu": what can be proposed, words in small letters.
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

std::vector<std::string> verb_names() {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.push_back(command.name);
  return names;
}

std::string names_of_verbs() { return join(verb_names(), " "); }

// Those that take a job, for a regular expression.
constexpr std::string_view verbs_with_job = "status|top|stop|logs|dump";

// What each shell runs for the words that only a run of dlaunch knows: the long options in a command's help,
// and the ids of the jobs that run here.
std::string options_of_command(const std::string& dlaunch, const std::string& command) {
  return dlaunch + " " + command + " --help 2>/dev/null | sed -nE 's/^ +(-.,)?(--[a-z-]+).*/\\2/p'";
}
std::string jobs(const std::string& dlaunch) {
  return dlaunch + " status 2>/dev/null | awk 'NR > 1 && /^[^ ]/ && !/ does not answer: / {print $1}'";
}

std::string bash() {
  std::string all;
  std::string all_underscored;
  std::string with_value;
  std::string cases;
  for (const Flag& flag : flags()) {
    const std::string name = "--" + std::string(flag.name);
    const std::string names = flag.letter == '\0' ? name : name + "|-" + flag.letter;
    all.append(all.empty() ? "" : " ").append(name);
    all_underscored.append(all_underscored.empty() ? "" : " ").append("--").append(underscored(flag.name));
    if (flag.is_switch()) continue;
    with_value.append(with_value.empty() ? "" : "|").append(names);
    const auto choices = choices_of(flag);
    if (!choices.empty()) {
      cases += "    " + names + ") COMPREPLY=($(compgen -W " + quoted(join(choices, " ")) +
               " -- \"$cur\")); return ;;\n";
    } else if (is_file(flag)) {
      cases += "    " + names + ") COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n";
    }
  }
  return "# bash completion for dlaunch: source <(dlaunch completion bash)\n"
         "_dlaunch() {\n"
         "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} i\n"
         "  COMPREPLY=()\n"
         "  # A command's own options are those that its help names.\n"
         "  if ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[1]} =~ ^(" +
         join(verb_names(), "|") +
         ")$ ]]; then\n"
         "    if [[ $cur == -* ]]; then\n"
         "      COMPREPLY=($(compgen -W \"$(" +
         options_of_command("${COMP_WORDS[0]}", "${COMP_WORDS[1]}") +
         ")\" -- \"$cur\"))\n"
         "    elif [[ ${COMP_WORDS[1]} =~ ^(" +
         std::string(verbs_with_job) +
         ")$ ]]; then\n"
         "      COMPREPLY=($(compgen -W \"$(" +
         jobs("${COMP_WORDS[0]}") +
         ")\" -- \"$cur\"))\n"
         "      [[ $prev == --* ]] && COMPREPLY+=($(compgen -f -- \"$cur\"))  # perhaps its value\n"
         "    elif [[ ${COMP_WORDS[1]} == completion ]]; then\n"
         "      COMPREPLY=($(compgen -W 'bash zsh fish' -- \"$cur\"))\n"
         "    else\n"
         "      COMPREPLY=($(compgen -f -- \"$cur\"))\n"
         "    fi\n"
         "    return\n"
         "  fi\n"
         "  # Behind the program everything is the program's.\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    case ${COMP_WORDS[i]} in\n"
         "      " +
         with_value +
         ") ((i++)) ;;\n"
         "      =) ((i++)) ;;\n"
         "      -*) ;;\n"
         "      *) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n"
         "    esac\n"
         "  done\n"
         "  [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD-2]}\n"
         "  [[ $cur == = ]] && cur=\n"
         "  case $prev in\n" +
         cases + "    " + with_value +
         ") return ;;\n"
         "  esac\n"
         "  if [[ $cur == --*_* ]]; then  # torchrun's other spelling\n"
         "    COMPREPLY=($(compgen -W " +
         quoted(all_underscored) +
         " -- \"$cur\"))\n"
         "  elif [[ $cur == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W " +
         quoted(all) +
         " -- \"$cur\"))\n"
         "  else\n"
         "    COMPREPLY=($(compgen -c -f -- \"$cur\"))\n"
         "    ((COMP_CWORD == 1)) && COMPREPLY+=($(compgen -W " +
         quoted(names_of_verbs()) +
         " -- \"$cur\"))\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _dlaunch dlaunch\n";
}

// In zsh's own language of specifications a colon and brackets mean something.
std::string zsh_help(std::string_view help) {
  std::string out;
  for (const char c : help) {
    if (c == ':' || c == '[' || c == ']') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh() {
  std::string specs;
  for (const Flag& flag : flags()) {
    const std::string help = "[" + zsh_help(flag.help) + "]";
    std::string value;
    if (!flag.is_switch()) {
      const auto choices = choices_of(flag);
      value = ":" + zsh_help(flag.value) + ":" +
              (!choices.empty() ? "(" + join(choices, " ") + ")"
               : is_file(flag)  ? "_files"
                                : " ");
    }
    const auto add = [&](const std::string& spelling) {
      std::string spec = spelling;
      spec.append(help).append(value);
      specs.append("    ").append(quoted(spec)).append(" \\\n");
    };
    add("--" + std::string(flag.name) + (flag.is_switch() ? "" : "="));
    if (flag.letter != '\0') add(std::string("-") + flag.letter);
  }
  return "#compdef dlaunch\n"
         "# zsh completion for dlaunch: source <(dlaunch completion zsh)\n"
         "_dlaunch_programs() {\n"
         "  ((CURRENT == 2)) && compadd -- " +
         names_of_verbs() +
         "\n"
         "  _command_names -e\n"
         "  _files\n"
         "}\n"
         "_dlaunch() {\n"
         "  if ((CURRENT > 2)) && [[ $words[2] =~ '^(" +
         join(verb_names(), "|") +
         ")$' ]]; then\n"
         "    if [[ $PREFIX == -* ]]; then\n"
         "      compadd -- ${(f)\"$(" +
         options_of_command("$words[1]", "$words[2]") +
         ")\"}\n"
         "    elif [[ $words[2] =~ '^(" +
         std::string(verbs_with_job) +
         ")$' ]]; then\n"
         "      compadd -- ${(f)\"$(" +
         jobs("$words[1]") +
         ")\"}\n"
         "      [[ $words[CURRENT-1] == --* ]] && _files  # perhaps its value\n"
         "    elif [[ $words[2] == completion ]]; then\n"
         "      compadd bash zsh fish\n"
         "    else\n"
         "      _files\n"
         "    fi\n"
         "    return\n"
         "  fi\n"
         "  _arguments -S -M 'm:_=- r:|[_-]=* r:|=*' \\\n" +
         specs +
         "    '1:program:_dlaunch_programs' \\\n"
         "    '*::argument:_files'\n"
         "}\n"
         "# Installed, this file is the function itself when it is called first.\n"
         "if [[ $funcstack[1] == _dlaunch ]]; then\n"
         "  _dlaunch \"$@\"\n"
         "else\n"
         "  compdef _dlaunch dlaunch\n"
         "fi\n";
}

// Flags whose value is the next word, where none is in theirs.
std::string fish_patterns_with_value() {
  std::string patterns;
  for (const Flag& flag : flags()) {
    if (flag.is_switch()) continue;
    patterns.append(" --").append(flag.name);
    if (flag.letter != '\0') patterns.append(" -").append(1, flag.letter);
  }
  return patterns;
}

std::string underscored_flags() {
  std::string names;
  for (const Flag& flag : flags()) {
    const std::string other = underscored(flag.name);
    if (other != flag.name) names.append(names.empty() ? "--" : " --").append(other);
  }
  return names;
}

std::string fish() {
  std::string text =
      "# fish completion for dlaunch: dlaunch completion fish | source\n"
      "function __dlaunch_first\n"
      "  test (count (commandline -opc)) -eq 1\n"
      "end\n"
      "function __dlaunch_no_program\n"
      "  set -l words (commandline -opc)\n"
      "  set -l is_value no\n"
      "  __dlaunch_command '" +
      join(verb_names(), "|") +
      "'; and return 1\n"
      "  set -e words[1]\n"
      "  for word in $words\n"
      "    if test $is_value = yes\n"
      "      set is_value no\n"
      "      continue\n"
      "    end\n"
      "    switch (string replace -a _ - -- $word)\n"
      "      case" +
      fish_patterns_with_value() +
      "\n"
      "        set is_value yes\n"
      "      case '-*'\n"
      "      case '*'\n"
      "        return 1\n"
      "    end\n"
      "  end\n"
      "  return 0\n"
      "end\n"
      "function __dlaunch_at_program\n"
      "  __dlaunch_no_program; and not string match -q -- '-*' (commandline -ct)\n"
      "end\n"
      "function __dlaunch_underscored  # torchrun's other spelling\n"
      "  __dlaunch_no_program; and string match -q -- '--*_*' (commandline -ct)\n"
      "end\n"
      "function __dlaunch_command\n"
      "  set -l words (commandline -opc)\n"
      "  test (count $words) -ge 2; and string match -qr \"^($argv[1])\\$\" -- $words[2]\n"
      "end\n"
      "function __dlaunch_options\n"
      "  set -l words (commandline -opc)\n"
      "  " +
      options_of_command("command $words[1]", "$words[2]") +
      "\n"
      "end\n"
      "function __dlaunch_jobs\n"
      "  set -l words (commandline -opc)\n"
      "  " +
      jobs("command $words[1]") +
      "\n"
      "end\n"
      "complete -c dlaunch -n '__dlaunch_command \"" +
      join(verb_names(), "|") +
      "\"' -a '(__dlaunch_options)'\n"
      "complete -c dlaunch -n '__dlaunch_command \"" +
      std::string(verbs_with_job) +
      "\"' -f -a '(__dlaunch_jobs)'\n"
      "complete -c dlaunch -n '__dlaunch_command completion' -f -a 'bash zsh fish'\n";
  for (const Command& command : commands()) {
    text +=
        "complete -c dlaunch -n __dlaunch_first -a " + command.name + " -d " + quoted(command.does) + "\n";
  }
  text += "complete -c dlaunch -n __dlaunch_at_program -a '(__fish_complete_command)'\n";
  text += "complete -c dlaunch -n __dlaunch_underscored -a " + quoted(underscored_flags()) + "\n";
  for (const Flag& flag : flags()) {
    text += "complete -c dlaunch -n __dlaunch_no_program -l " + std::string(flag.name);
    if (flag.letter != '\0') text += std::string(" -s ") + flag.letter;
    if (!flag.is_switch()) {
      const auto choices = choices_of(flag);
      text += is_file(flag) ? " -r -F" : " -x";
      if (!choices.empty()) text += " -a " + quoted(join(choices, " "));
    }
    text += " -d " + quoted(flag.help) + "\n";
  }
  return text;
}

}  // namespace

Result<std::string> completion_script(const std::string& shell) {
  if (shell == "bash") return bash();
  if (shell == "zsh") return zsh();
  if (shell == "fish") return fish();
  return mistake("no completion for the shell '" + shell + "'", "there is one for bash, zsh and fish");
}

}  // namespace dlaunch::launcher
