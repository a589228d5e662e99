#include "launcher/flags/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <functional>
#include <map>

#include "launcher/flags/spelling.h"
#include "launcher/flags/value_parsers.h"
#include "store/base/text.h"

namespace dlaunch::launcher {
namespace {

constexpr const char* description =
    "dlaunch starts the processes of a distributed job on this machine or on several, watches them, and "
    "restarts\n"
    "them when one fails. Every worker gets torchrun's environment (RANK, LOCAL_RANK, WORLD_SIZE, "
    "MASTER_ADDR, ...),\n"
    "so C++ programs that use libdlaunch and PyTorch scripts run as they are.\n\n"
    "  dlaunch --nproc-per-node=4 ./train --epochs=10\n"
    "  dlaunch --nproc-per-node=2 train.py\n"
    "  dlaunch --nproc-per-node=8 --hosts=node[01-16] ./train                                (on all of "
    "these, "
    "over ssh)\n"
    "  dlaunch --nproc-per-node=8 --nnodes=2 --node-rank=0 --master-addr=10.0.0.1 ./train    (on the first "
    "host)\n"
    "  dlaunch --nproc-per-node=8 --nnodes=2 --node-rank=1 --master-addr=10.0.0.1 ./train    (on the "
    "second)\n"
    "  srun --ntasks-per-node=1 dlaunch --nproc-per-node=8 ./train                           (under Slurm)\n"
    "\n"
    "Usage: dlaunch [options] program [arguments ...]\n"
    "       dlaunch status|top|stop|logs|dump|doctor|store|completion ...    each has its own --help";

constexpr const char* footer =
    "All words after the program are the program's arguments. Python sources (*.py, *.pyz, a directory with\n"
    "__main__.py, a script without execute permission) run with python3 -u, from the active virtual "
    "environment\n"
    "if there is one (PYTHON_EXEC overrides it). Flags may be written with underscores. Each flag can also "
    "be set\n"
    "by a variable (DLAUNCH_NNODES, or torchrun's PET_NNODES) or in the file of --config; the command line "
    "takes\n"
    "precedence.\n"
    "Exit code: 0 if every worker returned 0, otherwise that of the first that failed (128 + n for signal "
    "n);\n"
    "2 for a mistake on the command line, 1 for other errors of dlaunch itself.\n"
    "Manual: man dlaunch";

std::string spelling(const Flag& flag) { return "--" + std::string(flag.name); }

// --- words ---

// A flag as typed, in the form that CLI11 takes.
struct Typed {
  const Flag* flag = nullptr;
  std::string value;  // of a flag that takes one
};

// --nproc_per_node=a_b -> nproc-per-node; the value is not touched.
std::string name_of(const std::string& word) {
  std::string name = word.substr(2, word.find('=') - 2);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

// "did you mean --node-rank?"; if the name resembles none, a reference to --help.
std::string advice(std::string name) {
  name = lower(name);
  std::vector<std::string> names;
  for (const Flag& flag : flags()) names.emplace_back(flag.name);
  std::vector<std::string> meant = likely(name, names);
  for (std::string& one : meant) one.insert(0, "--");
  return meant.empty() ? "see dlaunch --help" : "did you mean " + join(meant, " or ") + "?";
}

// torchrun's rule (argparse's, with two spellings of each long name): an abbreviation is the beginning of
// only one name, which is one word. Names that torchrun lacks do not make its abbreviations ambiguous.
Result<const Flag*> abbreviated(const std::string& name) {
  for (const bool torchruns : {true, false}) {
    std::vector<const Flag*> meant;
    for (const Flag& flag : flags()) {
      if (flag.torchrun == torchruns && flag.name.starts_with(name)) meant.push_back(&flag);
    }
    if (meant.empty()) continue;
    if (meant.size() > 1) {
      std::vector<std::string> names;
      names.reserve(meant.size());
      for (const Flag* flag : meant) names.push_back(spelling(*flag));
      return usage("--" + name + " could mean " + join(names, ", "));
    }
    if (meant.front()->name.find('-') == std::string_view::npos) return meant.front();
    return usage("unknown option --" + name, "", "did you mean " + spelling(*meant.front()) + "?");
  }
  return usage("unknown option --" + name, "", advice(name));
}

Result<const Flag*> long_flag(const std::string& name) {
  if (const Flag* flag = find_flag(name)) return flag;
  return abbreviated(name);
}

// Splits the words before the program into flags, and finds the program.
class Reader {
 public:
  explicit Reader(const std::vector<std::string>& words) : words_(words) {}

  Result<void> read() {
    for (; at_ < words_.size(); ++at_) {
      const std::string& word = words_[at_];
      if (word == "--") {
        ++at_;
        break;
      }
      if (word.size() < 2 || word[0] != '-') break;
      auto done = word[1] == '-' ? take_long(word) : take_letters(word);
      if (!done) return done;
    }
    return {};
  }

  [[nodiscard]] const std::vector<Typed>& typed() const { return typed_; }
  [[nodiscard]] std::vector<std::string> program() const {
    return {words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end()};
  }

 private:
  Result<void> take_long(const std::string& word) {
    auto flag = long_flag(name_of(word));
    if (!flag) return std::move(flag).error();
    const auto equals = word.find('=');
    if (equals == std::string::npos) return take_flag(**flag, spelling(**flag));
    const std::string value = word.substr(equals + 1);
    if ((*flag)->takes_truth) return take_truth(**flag, value);
    if ((*flag)->is_switch())
      return usage(spelling(**flag) + " takes no value, but was given '" + value + "'");
    typed_.push_back({*flag, value});
    return {};
  }

  // =False after an alias that negates another flag sets that flag.
  Result<void> take_truth(const Flag& flag, const std::string& value) {
    if (value != "True" && value != "true" && value != "False" && value != "false") {
      return usage(spelling(flag) + " takes True or False, but was given '" + value + "'");
    }
    const bool holds = value == "True" || value == "true";
    typed_.push_back({holds ? &flag : &canonical(flag), ""});
    return {};
  }

  // -m, -t3, -mt3, -t 3.
  Result<void> take_letters(const std::string& word) {
    const std::string name = name_of("-" + word);
    if (name.size() > 1 && find_flag(name)) return usage("unknown option -" + name, "", advice(name));
    for (std::size_t i = 1; i < word.size(); ++i) {
      const Flag* flag = find_flag(word[i]);
      if (!flag) {
        return usage("unknown option -" + word.substr(i, 1) + (word.size() > 2 ? " in " + word : ""), "",
                     advice(name));
      }
      if (flag->is_switch()) {
        typed_.push_back({flag, ""});
        continue;
      }
      if (i + 1 == word.size()) return take_flag(*flag, std::string("-") + flag->letter);
      typed_.push_back({flag, word.substr(word[i + 1] == '=' ? i + 2 : i + 1)});
      return {};
    }
    return {};
  }

  // A flag without a value in the same word.
  Result<void> take_flag(const Flag& flag, const std::string& as_typed) {
    if (flag.is_switch()) {
      typed_.push_back({&flag, ""});
      return {};
    }
    if (at_ + 1 == words_.size()) return usage(as_typed + " needs a value");
    const std::string& value = words_[at_ + 1];
    // If the value was forgotten, the next option must not be taken for it. Negative numbers are values.
    const bool an_option = value.size() > 1 && value[0] == '-' &&
                           std::isdigit(static_cast<unsigned char>(value[1])) == 0 && value[1] != '.';
    if (an_option) {
      return usage(as_typed + " needs a value, but is followed by " + value, "",
                   "a value that begins with a dash is written " + spelling(flag) + "=" + value);
    }
    typed_.push_back({&flag, value});
    ++at_;
    return {};
  }

  const std::vector<std::string>& words_;
  std::size_t at_ = 0;
  std::vector<Typed> typed_;
};

// --- CLI11: the values, in order, and --help ---

// In the order that CLI11 expects. A value is a word of its own, so that an empty value stays one.
std::vector<std::string> reversed(const std::vector<Typed>& typed) {
  std::vector<std::string> words;
  for (const Typed& one : typed) {
    words.push_back(spelling(*one.flag));
    if (!one.flag->is_switch()) words.push_back(one.value);
  }
  std::reverse(words.begin(), words.end());
  return words;
}

class HelpFormat final : public CLI::Formatter {
 public:
  // The description has its own usage lines.
  std::string make_usage(const CLI::App*, std::string) const override { return ""; }
};

// CLI11 takes 5 us for each declared option, so parsing declares only those that were typed.
void declare(CLI::App& app, const std::function<bool(const Flag&)>& wanted) {
  for (const Flag& flag : flags()) {
    if (!wanted(flag)) continue;
    const std::string group(title_of(flag.group));
    if (flag.name == "help") {
      app.set_help_flag("-h,--help", std::string(flag.help))->group(group);
      continue;
    }
    std::string names = flag.letter == '\0' ? "" : std::string("-") + flag.letter + ",";
    names += spelling(flag);
    CLI::Option* option = flag.is_switch() ? app.add_flag(names) : app.add_option(names);
    if (!flag.is_switch()) option->type_name(std::string(flag.value));
    std::string help(flag.help);
    if (!flag.fallback.empty()) help.append(" [").append(flag.fallback).append("]");
    option->description(help)->group(group)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

}  // namespace

std::string help_text() {
  CLI::App app(description);
  app.formatter(std::make_shared<HelpFormat>());
  app.get_formatter()->column_width(40);
  app.footer(footer);
  declare(app, [](const Flag&) { return true; });
  std::string text = app.help();
  // CLI11 leaves two empty lines between groups; one is enough.
  for (auto at = text.find("\n\n\n"); at != std::string::npos; at = text.find("\n\n\n", at))
    text.erase(at, 1);
  return text;
}

Result<CommandLine> parse_command_line(const std::vector<std::string>& arguments) {
  Reader reader(arguments);
  if (auto read = reader.read(); !read) return std::move(read).error();

  CommandLine out;
  CLI::App app;
  declare(app, [&](const Flag& flag) {
    return std::any_of(reader.typed().begin(), reader.typed().end(),
                       [&](const Typed& typed) { return typed.flag == &flag; });
  });
  try {
    app.parse(reversed(reader.typed()));
  } catch (const CLI::CallForHelp&) {
    out.help = true;
    return out;
  } catch (const CLI::ParseError& mistake) {
    return usage(mistake.what());
  }
  // In the order typed, so that the last of two names of one flag counts.
  std::map<const CLI::Option*, std::size_t> seen;
  for (const CLI::Option* option : app.parse_order()) {
    const Flag& flag = *find_flag(option->get_lnames().front());
    const std::string& value = option->results()[seen[option]++];
    auto setting = make_setting(flag, value, Origin::command_line, spelling(flag));
    if (!setting) return std::move(setting).error();
    const auto [known, is_new] = out.settings.try_emplace(std::string(canonical(flag).name), *setting);
    if (is_new) continue;
    if (flag.repeats) setting->value.insert(0, known->second.value + "\n");
    known->second = std::move(*setting);
  }
  out.version = out.settings.contains("version");
  if (const Setting* shell = find(out.settings, "print-completion")) out.completion = shell->value;
  out.program = reader.program();
  return out;
}

}  // namespace dlaunch::launcher
