#include "launcher/commands/completion_command.h"

#include "launcher/commands/command_parser.h"
#include "launcher/commands/completion.h"
#include "launcher/console/command_io.h"
#include "launcher/flags/value_parsers.h"

namespace dlaunch::launcher {

int run_completion(const std::vector<std::string>& arguments) {
  CommandParser line(
      "dlaunch completion",
      "dlaunch completion prints the script that makes a shell complete dlaunch's flags and commands:\n\n"
      "  source <(dlaunch completion bash)       in ~/.bashrc\n"
      "  source <(dlaunch completion zsh)        in ~/.zshrc, after compinit\n"
      "  dlaunch completion fish | source        in ~/.config/fish/config.fish\n\n"
      "Usage: dlaunch completion bash|zsh|fish");
  auto parsed = line.parse(arguments);
  if (!parsed) return fail(parsed.error());
  if (const auto* help = std::get_if<PrintAndExit>(&*parsed)) return print(help->text);
  const auto& words = std::get<CommandParser::Words>(*parsed);
  if (words.size() != 1) return fail(mistake("completion takes one shell", "give bash, zsh or fish"));
  auto script = completion_script(words[0]);
  return script ? print(*script) : fail(script.error());
}

}  // namespace dlaunch::launcher
