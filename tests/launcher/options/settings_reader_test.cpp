#include "launcher/options/settings_reader.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

using std::chrono::milliseconds;

Settings set(std::string value) {
  return {{"flag", {std::move(value), Origin::environment, "DLAUNCH_FLAG"}}};
}

TEST(SettingsReader, WhatIsNotSetIsNone) {
  const Settings none;
  SettingsReader in(none);
  EXPECT_EQ(in.given("flag"), nullptr);
  EXPECT_FALSE(in.on("flag") || in.text("flag") || in.host("flag") || in.integer("flag", 0, 1) ||
               in.size("flag") || in.duration("flag") || in.one_of("flag", {"a"}));
  EXPECT_FALSE(in.error());
}

TEST(SettingsReader, ReadsEachKindOfValue) {
  const auto read = [](const char* value, const auto& as) {
    const Settings settings = set(value);
    SettingsReader in(settings);
    const bool right = as(in);
    return right && !in.error();
  };
  EXPECT_TRUE(read("true", [](SettingsReader& in) { return in.on("flag"); }));
  EXPECT_FALSE(read("false", [](SettingsReader& in) { return in.on("flag"); }));
  EXPECT_TRUE(read("7", [](SettingsReader& in) { return in.integer("flag", 7, 7) == 7; }));
  EXPECT_TRUE(read("2k", [](SettingsReader& in) { return in.size("flag") == 2048U; }));
  EXPECT_TRUE(read("0", [](SettingsReader& in) { return in.duration("flag") == Duration(0); }));
  EXPECT_TRUE(
      read("0.5", [](SettingsReader& in) { return in.positive_duration("flag") == milliseconds(500); }));
  EXPECT_TRUE(read("b", [](SettingsReader& in) { return in.one_of("flag", {"a", "b"}) == "b"; }));
}

TEST(SettingsReader, AnEmptyTextCountsAsUnset) {
  const Settings settings = set("");
  const SettingsReader in(settings);
  EXPECT_NE(in.given("flag"), nullptr);
  EXPECT_FALSE(in.text("flag"));
  EXPECT_FALSE(in.host("flag"));
}

TEST(SettingsReader, AHostMayHaveBrackets) {
  const auto host = [](const char* value) {
    const Settings settings = set(value);
    return *SettingsReader(settings).host("flag");
  };
  EXPECT_EQ(host("a.b"), "a.b");
  EXPECT_EQ(host("[::1]"), "::1");
  EXPECT_EQ(host("[::1"), "[::1");
  EXPECT_EQ(host("[]"), "[]") << "nothing would be left";
}

TEST(SettingsReader, KeepsTheFirstMistake) {
  const Settings settings = set("x");
  SettingsReader in(settings);
  EXPECT_FALSE(in.integer("flag", 0, 1));
  EXPECT_FALSE(in.size("flag"));
  in.fail({ErrorKind::invalid, "a third", "", "", ""});
  ASSERT_TRUE(in.error());
  EXPECT_EQ(in.error()->message(), "DLAUNCH_FLAG: 'x' is not a number; see dlaunch --help");
}

TEST(SettingsReader, APositiveTimeIsNotZeroAndHasAMost) {
  for (const char* wrong : {"0", "-1", "1e-12", "26"}) {
    const Settings settings = set(wrong);
    SettingsReader in(settings);
    EXPECT_FALSE(in.positive_duration("flag", std::chrono::seconds(25))) << wrong;
    EXPECT_TRUE(in.error()) << wrong;
  }
}

}  // namespace
}  // namespace dlaunch::launcher
