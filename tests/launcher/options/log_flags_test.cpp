#include "launcher/options/options_from_settings.h"

#include "tests/launcher/flags/parsed_options.h"

namespace dlaunch::launcher {
namespace {

using agent::Streams;

Result<agent::LogOptions> parsed(const std::string& flag, const std::string& value) {
  return parse_log_flags({{flag, {value, Origin::command_line, "--" + flag}}});
}
std::string why_not(const std::string& flag, const std::string& value) {
  const auto log = parsed(flag, value);
  EXPECT_FALSE(log.ok()) << flag << " " << value;
  return log ? "" : log.error().message();
}

TEST(LogFlags, NoneMeansTheDefault) {
  EXPECT_EQ(*parse_log_flags({}), agent::LogOptions{});
  EXPECT_EQ(*parsed("tee", ""), agent::LogOptions{});
}

TEST(LogFlags, StreamsAreOfAllRanksOrOfSome) {
  for (const int number : {0, 1, 2, 3})
    EXPECT_EQ(parsed("tee", std::to_string(number))->tee.of(7), static_cast<Streams>(number));
  const auto some = parsed("redirects", "0:1,10:3,0:2");
  ASSERT_TRUE(some.ok());
  EXPECT_EQ(some->redirects.of(0), Streams::err) << "the last entry of a rank counts";
  EXPECT_EQ(some->redirects.of(10), Streams::both);
  EXPECT_EQ(some->redirects.of(1), Streams::none);
  EXPECT_FALSE(some->tee.any());
}

TEST(LogFlags, StreamsThatAreNoneOfThese) {
  for (const char* wrong : {"4", "-1", "33", "x"})
    EXPECT_TRUE(why_not("tee", wrong).starts_with("--tee: '" + std::string(wrong) + "' is not 0 (nothing)"));
  EXPECT_EQ(why_not("redirects", "0:1,3"), "--redirects: '3' names no local rank; write RANK:0-3,...");
  EXPECT_TRUE(why_not("redirects", "65536:1").starts_with("--redirects: 65536 is out of range"));
  EXPECT_TRUE(parsed("redirects", "65535:1").ok());
  why_not("redirects", "0:");
}

TEST(LogFlags, RanksAreSortedAndNamedOnce) {
  EXPECT_EQ(parsed("local-ranks-filter", "3,0,11,3")->local_ranks_filter, (std::vector{0, 3, 11}));
  EXPECT_EQ(parsed("global-ranks-filter", "2,1")->global_ranks_filter, (std::vector{1, 2}));
  EXPECT_EQ(why_not("global-ranks-filter", "-1"),
            "--global-ranks-filter: -1 is out of range; give a value from 0 to 65535");
}

TEST(LogFlags, TwoCommasAreOneInAText) {
  EXPECT_EQ(parsed("duplicate-stdout-filters", "loss,a,,b")->duplicate_stdout_filters,
            (Words{"loss", "a,b"}));
  EXPECT_EQ(parsed("duplicate-stderr-filters", ",,")->duplicate_stderr_filters, Words{","});
  for (const char* wrong : {",", "a,", ",a"}) why_not("duplicate-stderr-filters", wrong);
}

TEST(LogFlags, SizesAndNumbersOfFilesAreLimited) {
  EXPECT_EQ(parsed("log-max-size", "1.5k")->max_bytes, 1536U);
  why_not("log-max-size", "0");
  EXPECT_EQ(parsed("log-keep", "0")->keep, 0);
  EXPECT_EQ(parsed("log-keep", "1000")->keep, 1000);
  why_not("log-keep", "1001");
}

TEST(LogFlags, AnEmptyPrefixIsAPrefix) {
  EXPECT_EQ(parsed("log-line-prefix-template", "")->line_prefix, "");
  EXPECT_FALSE(parse_log_flags({})->line_prefix);
}

}  // namespace
}  // namespace dlaunch::launcher
