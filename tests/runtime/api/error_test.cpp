// The message of an exception: its place, then its reason.

#include "dlaunch/error.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

namespace dlaunch {
namespace {

std::string text(const ErrorContext& context) { return DistError("why", context).what(); }

TEST(DistError, LeavesOutWhatIsNotKnown) {
  EXPECT_EQ(text({}), "why");
  EXPECT_EQ(text({.rank = 0}), "rank 0: why");
  EXPECT_EQ(text({.operation = "send"}), "send: why");
  EXPECT_EQ(text({.operation = "send", .sequence = 4}), "send #4: why");
  EXPECT_EQ(text({.sequence = 4}), "why");  // a number of nothing
  EXPECT_EQ(text({.group = "dp"}), "group dp: why");
  EXPECT_EQ(text({.operation = "send", .group = "dp"}), "send of group dp: why");
  EXPECT_EQ(text({.peer = 0}), "peer 0: why");
  EXPECT_EQ(text({.host = "node1"}), "why");  // nobody's
}

TEST(DistError, NamesTheWholePlaceInItsOrder) {
  EXPECT_EQ(
      text({.rank = 1, .operation = "all_reduce", .sequence = 4, .group = "dp", .peer = 3, .host = "node1"}),
      "rank 1, all_reduce #4 of group dp, peer 3 on node1: why");
  EXPECT_EQ(text({.rank = 1, .group = "dp", .peer = 3}), "rank 1, group dp, peer 3: why");
}

TEST(DistError, KeepsItsParts) {
  const DistNetworkError error("why", {.rank = 1, .operation = "send", .peer = 3});
  const DistError& base = error;
  EXPECT_EQ(base.reason(), "why");
  EXPECT_EQ(base.context().rank, 1);
  EXPECT_EQ(base.context().operation, "send");
  EXPECT_EQ(base.context().peer, 3);
  DistError copy("other");
  copy = base;
  EXPECT_STREQ(copy.what(), error.what());
  EXPECT_EQ(copy.reason(), "why");
}

// A program that catches one kind must not catch the others.
TEST(DistError, KindsAreApart) {
  static_assert(std::is_base_of_v<DistError, DistBackendError> &&
                std::is_base_of_v<DistError, DistNetworkError> &&
                std::is_base_of_v<DistError, DistStoreError>);
  static_assert(!std::is_base_of_v<DistNetworkError, DistStoreError>);
  EXPECT_THROW(throw DistStoreError("x"), DistStoreError);
  try {
    throw DistBackendError("x");
  } catch (const DistNetworkError&) {
    FAIL();
  } catch (const DistError&) {
  }
}

}  // namespace
}  // namespace dlaunch
