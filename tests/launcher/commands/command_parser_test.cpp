#include "launcher/commands/command_parser.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

using Outcome = std::variant<CommandParser::Words, PrintAndExit>;

struct Parsed {
  std::string text;
  std::optional<std::string> maybe;
  bool flag = false;
  Result<Outcome> result = Outcome();
};

Parsed parse(const std::vector<std::string>& arguments) {
  Parsed out;
  CommandParser parser("dlaunch try", "dlaunch try tries.\n\nUsage: dlaunch try");
  parser.option("--max-value", "N", "a number", out.text);
  parser.option("--maybe", "X", "perhaps", out.maybe);
  parser.flag("-f,--follow", "follow", out.flag);
  out.result = parser.parse(arguments);
  return out;
}

CommandParser::Words words_of(const Parsed& parsed) { return std::get<CommandParser::Words>(*parsed.result); }

TEST(CommandParser, OptionsMayStandAnywhereBeforeTwoDashes) {
  const Parsed parsed = parse({"a", "--max_value=x_y", "b", "-f", "--", "--maybe"});
  ASSERT_TRUE(parsed.result);
  EXPECT_EQ(words_of(parsed), (CommandParser::Words{"a", "b", "--maybe"}));
  EXPECT_EQ(parsed.text, "x_y");
  EXPECT_TRUE(parsed.flag);
  EXPECT_FALSE(parsed.maybe);
}

TEST(CommandParser, AnEmptyValueIsAValue) {
  const Parsed parsed = parse({"--maybe", ""});
  ASSERT_TRUE(parsed.result);
  EXPECT_EQ(parsed.maybe, std::optional<std::string>(""));
}

TEST(CommandParser, ANegativeNumberIsAWord) {
  EXPECT_EQ(words_of(parse({"-5"})), CommandParser::Words{"-5"});
}

TEST(CommandParser, MistakesNameTheNearestOption) {
  EXPECT_EQ(parse({"--folow"}).result.error().message(), "unknown option --folow; did you mean --follow?");
  EXPECT_EQ(parse({"--max-value"}).result.error().message(),
            "--max-value needs a value; see dlaunch try --help");
}

TEST(CommandParser, HelpHasTheDescriptionAndTheOptions) {
  const Parsed parsed = parse({"--help"});
  ASSERT_TRUE(parsed.result);
  const std::string& text = std::get<PrintAndExit>(*parsed.result).text;
  EXPECT_TRUE(text.starts_with("dlaunch try tries.\n\nUsage: dlaunch try\n")) << text;
  EXPECT_NE(text.find("--max-value N"), std::string::npos) << text;
}

}  // namespace
}  // namespace dlaunch::launcher
