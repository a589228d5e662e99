#include "store/base/log.h"

#include <gtest/gtest.h>

#include <string>

namespace dlaunch::store {
namespace {

// Lines of each level that go through a log that was started so.
std::string logged(log::Level level, bool colour = false) {
  std::string text;
  log::start("t", level, colour, [&](std::string_view line) { text += line; });
  log::trace("trace");
  log::debug("debug");
  log::info("info");
  log::warning("warning");
  log::error("error");
  log::stop();
  return text;
}

TEST(Log, EachLevelShowsTheLinesAboveIt) {
  EXPECT_EQ(logged(log::Level::trace), "t: trace\nt: debug\nt: info\nt: warning\nt: error\n");
  EXPECT_EQ(logged(log::Level::info), "t: info\nt: warning\nt: error\n");
  EXPECT_EQ(logged(log::Level::error), "t: error\n");
  EXPECT_EQ(logged(log::Level::off), "");
}

TEST(Log, TheNameIsColoured) { EXPECT_EQ(logged(log::Level::error, true), "\033[36mt:\033[0m error\n"); }

TEST(Log, ATextIsNoFormat) {
  std::string text;
  log::start("t", log::Level::info, false, [&](std::string_view line) { text += line; });
  log::info("100 % {} %v");
  log::stop();
  EXPECT_EQ(text, "t: 100 % {} %v\n");
}

TEST(Log, TheLevelMayChange) {
  std::string text;
  log::start("t", log::Level::warning, false, [&](std::string_view line) { text += line; });
  EXPECT_FALSE(log::enabled(log::Level::info));
  log::set_level(log::Level::debug);
  EXPECT_TRUE(log::enabled(log::Level::info));
  log::debug("now");
  log::stop();
  EXPECT_EQ(text, "t: now\n");
}

TEST(Log, NothingIsWrittenToItsFunctionAfterItsEnd) {
  int lines = 0;
  log::start("t", log::Level::info, false, [&](std::string_view) { ++lines; });
  log::stop();
  testing::internal::CaptureStderr();
  log::info("later");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "t: later\n");
  EXPECT_EQ(lines, 0);
}

TEST(Log, LevelsAreReadAsTorchrunReadsThem) {
  using log::Level;
  const auto read = [](const char* text) { return log::parse_level(text, Level::trace); };
  EXPECT_EQ(read("WARN"), Level::warning);
  EXPECT_EQ(read("Warning"), Level::warning);
  EXPECT_EQ(read("30"), Level::warning);
  EXPECT_EQ(read("CRITICAL"), Level::error);
  EXPECT_EQ(read("off"), Level::off);
  for (const char* other : {"", "31", "verbose", " info"}) EXPECT_EQ(read(other), Level::trace) << other;
}

}  // namespace
}  // namespace dlaunch::store
