#include "launcher/commands/commands.h"

#include <gtest/gtest.h>

#include <set>

namespace dlaunch::launcher {
namespace {

TEST(Commands, EachIsFoundByItsName) {
  std::set<std::string> names;
  for (const Command& command : commands()) {
    EXPECT_EQ(find_command(command.name), &command);
    EXPECT_TRUE(names.insert(command.name).second) << command.name << " is there twice";
    EXPECT_NE(command.run, nullptr);
    EXPECT_FALSE(command.does.empty());
  }
  EXPECT_GE(names.size(), 8U);
}

TEST(Commands, OtherWordsArePrograms) {
  for (const char* word : {"", "stat", "Status", "status ", "./status"})
    EXPECT_EQ(find_command(word), nullptr) << word;
}

}  // namespace
}  // namespace dlaunch::launcher
