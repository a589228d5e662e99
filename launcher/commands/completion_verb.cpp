#include "launcher/commands/completion_verb.h"

#include "launcher/commands/completion.h"
#include "launcher/commands/verb_line.h"
#include "launcher/console/verb_output.h"
#include "launcher/flags/values.h"

namespace dlaunch::launcher {

int run_completion(const std::vector<std::string>& arguments) {
  VerbLine line("dlaunch completion",
                "dlaunch completion prints what makes a shell complete dlaunch's flags and commands:\n\n"
                "  source <(dlaunch completion bash)       in ~/.bashrc\n"
                "  source <(dlaunch completion zsh)        in ~/.zshrc, after compinit\n"
                "  dlaunch completion fish | source        in ~/.config/fish/config.fish\n\n"
                "Usage: dlaunch completion bash|zsh|fish");
  auto parsed = line.parse(arguments);
  if (!parsed) return fail(parsed.error());
  if (const auto* help = std::get_if<JustPrint>(&*parsed)) return print(help->text);
  const auto& words = std::get<VerbLine::Words>(*parsed);
  if (words.size() != 1) return fail(mistake("completion takes one shell", "bash, zsh or fish"));
  auto script = completion_script(words[0]);
  return script ? print(*script) : fail(script.error());
}

}  // namespace dlaunch::launcher
