// What the shells do with these scripts: tests/process/commands_test.py.
#include "launcher/commands/completion.h"

#include <gtest/gtest.h>

#include "launcher/commands/commands.h"
#include "launcher/flags/flag_table.h"

namespace dlaunch::launcher {
namespace {

class CompletionScript : public testing::TestWithParam<const char*> {
 protected:
  CompletionScript() {
    const auto made = completion_script(GetParam());
    EXPECT_TRUE(made.ok());
    if (made) script_ = *made;
  }
  [[nodiscard]] bool has(const std::string& text) const { return script_.find(text) != std::string::npos; }
  std::string script_;
};

TEST_P(CompletionScript, NamesEveryFlagAndCommand) {
  for (const Flag& flag : flags()) {
    const std::string name(flag.name);
    EXPECT_TRUE(has("--" + name) || has(" -l " + name + " ")) << name;
  }
  for (const Command& command : commands()) EXPECT_TRUE(has(command.name)) << command.name;
}

TEST_P(CompletionScript, ProposesTheWordsOfAValue) {
  EXPECT_TRUE(has("none core numa gpu")) << script_;
  EXPECT_FALSE(has("N auto")) << "a placeholder is no word to propose";
}

TEST_P(CompletionScript, NoPlaceholderIsLeft) {
  for (const char* part :
       {"@commands@", "@job_commands@", "@options@", "@jobs@", "@flags@", "@with_value@", "@cases@",
        "@flag_specs@", "@command_words@", "@complete_flags@", "@complete_commands@", "@underscored_flags@"})
    EXPECT_FALSE(has(part)) << part;
}

INSTANTIATE_TEST_SUITE_P(Shells, CompletionScript, testing::Values("bash", "zsh", "fish"));

TEST(Completion, AnotherShellIsTheUsersMistake) {
  const auto made = completion_script("csh");
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::invalid);
  EXPECT_EQ(made.error().message(), "no completion script for the shell 'csh'; choose bash, zsh or fish");
}

}  // namespace
}  // namespace dlaunch::launcher
