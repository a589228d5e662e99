#include "runtime/base/function_ref.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>

namespace dlaunch::internal {
namespace {

using Join = FunctionRef<std::string(const std::string&, int)>;

TEST(FunctionRef, CallsWhatItRefersTo) {
  const std::string begin = "a";
  const auto join = [&](const std::string& middle, int end) { return begin + middle + std::to_string(end); };
  const Join ref = join;
  EXPECT_TRUE(ref);
  EXPECT_EQ(ref("b", 3), "ab3");
  const Join copy = ref;
  EXPECT_EQ(copy("c", 4), "ac4");
}

TEST(FunctionRef, CanBeNone) { EXPECT_FALSE(Join()); }

TEST(FunctionRef, TakesAFunctionObject) {
  const std::function<std::string(const std::string&, int)> twice = [](const std::string& text, int) {
    return text + text;
  };
  EXPECT_EQ(Join(twice)("x", 0), "xx");
}

TEST(FunctionRef, PassesObjectsOn) {
  const auto unwrap = [](std::unique_ptr<int> value) { return *value; };
  EXPECT_EQ(FunctionRef<int(std::unique_ptr<int>)>(unwrap)(std::make_unique<int>(7)), 7);
}

TEST(FunctionRef, TakesNoTemporaryObject) {
  const auto callable = [](const std::string& text, int) { return text; };
  using Callable = decltype(callable);
  EXPECT_TRUE((std::is_constructible_v<Join, Callable&>));
  EXPECT_FALSE((std::is_constructible_v<Join, std::remove_const_t<Callable>>));
}

}  // namespace
}  // namespace dlaunch::internal
