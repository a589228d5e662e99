#include "store/client/error_text.h"

#include <gtest/gtest.h>

namespace dlaunch::store {
namespace {

using Keys = std::vector<std::string>;

TEST(ErrorText, NamesThreeKeysAndCountsTheRest) {
  EXPECT_EQ(describe_keys(Keys{}), "no key");
  EXPECT_EQ(describe_keys(Keys{"a"}), "key 'a'");
  EXPECT_EQ(describe_keys(Keys{"a", "b", "c"}), "keys 'a', 'b', 'c'");
  EXPECT_EQ(describe_keys(Keys{"a", "b", "c", "d"}), "keys 'a', 'b', 'c' and 1 more");
}

TEST(ErrorText, ATimeoutNamesStoreTimeAndReason) {
  const Error error = timeout_error("store a:1", std::chrono::seconds(5), "key 'x'");
  EXPECT_EQ(error.kind, ErrorKind::timeout);
  EXPECT_EQ(error.message(), "store a:1: waited 5 s for key 'x'");
  EXPECT_EQ(timeout_error("s", std::chrono::seconds(-5), "k").message(), "s: waited 0 ms for k");
}

}  // namespace
}  // namespace dlaunch::store
