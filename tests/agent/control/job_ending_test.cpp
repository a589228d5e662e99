#include "agent/control/job_ending.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

JobEnding ending() {
  JobEnding ending;
  ending.fencing = 1'700'000'000'000'000;
  ending.outcome.failed = true;
  ending.outcome.exit_code = 7;
  ending.outcome.cause.host = "b";
  return ending;
}

TEST(JobEndingTest, IsReadAsItWasWritten) {
  const auto read = parse_job_ending(to_text(ending()));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, ending());
}

TEST(JobEndingTest, OfAnotherVersionItIsNotRead) {
  std::string text = to_text(ending());
  text.replace(text.find('/') + 1, 1, "0");
  EXPECT_FALSE(parse_job_ending(text).ok());
}

TEST(JobEndingTest, NoPartOfItIsOne) {
  const std::string text = to_text(ending());
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_FALSE(parse_job_ending(std::string_view(text).substr(0, length)).ok()) << length;
}

}  // namespace
}  // namespace dlaunch::agent
