// The calling thread's stack as text.

#include "runtime/record/call_stack.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>
#include <streambuf>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/api/error_strings.h"

namespace dlaunch::internal {
namespace {

using test::contains;

// Called by the C++ library.
class Recording final : public std::streambuf {
 public:
  std::string stack;

 protected:
  int sync() override {
    stack = call_stack();
    return 0;
  }
};

TEST(CallStack, NamesTheFunctionsOfLibraries) {
  Recording recording;
  std::ostream stream(&recording);
  stream.flush();
  const std::string& stack = recording.stack;
  EXPECT_TRUE(stack.starts_with("call stack:\n  #0 ")) << stack;
  EXPECT_TRUE(contains(stack, " std::ostream::flush() in ")) << stack;
  EXPECT_TRUE(contains(stack, "libstdc++.so.6(+0x")) << stack;
  EXPECT_TRUE(contains(stack, " __libc_start_main in ")) << stack;  // from main on
}

// A function that the program does not export is a file and an offset, which addr2line reads.
TEST(CallStack, HasAnOffsetForEachFunctionOfTheProgram) {
  const std::string stack = call_stack();
  const std::string first = stack.substr(0, stack.find('\n', stack.find('\n') + 1));
  EXPECT_TRUE(contains(first, "runtime_test(+0x")) << stack;
  EXPECT_EQ(first.back(), ')') << stack;
}

std::string deep(int depth) {  // NOLINT(misc-no-recursion): a deep stack
  if (depth == 0) return call_stack();
  std::string stack = deep(depth - 1);
  stack += "";  // not a tail call
  return stack;
}

TEST(CallStack, OfEndlessRecursionHasAnEnd) {
  const std::string stack = deep(1000);
  EXPECT_TRUE(contains(stack, "\n  #126 ")) << stack;
  EXPECT_FALSE(contains(stack, "\n  #127 ")) << stack;
}

// Read once: each case needs a process of its own.
TEST(CallStack, IsShownIfTheEnvironmentAsks) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  using Variables = std::vector<std::pair<const char*, const char*>>;
  const auto expect = [](bool wanted, const Variables& variables) {
    EXPECT_EXIT(
        {
          unsetenv("DLAUNCH_SHOW_CPP_STACKTRACES");
          unsetenv("TORCH_SHOW_CPP_STACKTRACES");
          for (const auto& [name, value] : variables) setenv(name, value, 1);
          std::_Exit(shows_call_stacks() == wanted ? 0 : 1);
        },
        testing::ExitedWithCode(0), "");
  };
  expect(false, {});
  expect(true, {{"TORCH_SHOW_CPP_STACKTRACES", "1"}});
  expect(false, {{"TORCH_SHOW_CPP_STACKTRACES", "yes"}});
  expect(false, {{"DLAUNCH_SHOW_CPP_STACKTRACES", "0"}, {"TORCH_SHOW_CPP_STACKTRACES", "1"}});
  expect(true, {{"DLAUNCH_SHOW_CPP_STACKTRACES", "1"}, {"TORCH_SHOW_CPP_STACKTRACES", "0"}});
}

}  // namespace
}  // namespace dlaunch::internal
