#include "store/base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace dlaunch::store {
namespace {

TEST(Error, IsOneLineOfThePartsThatItHas) {
  const Error whole{ErrorKind::io, "cannot listen on", "a:1", "in use", "choose another port"};
  EXPECT_EQ(whole.message(), "cannot listen on a:1: in use; choose another port");
  EXPECT_EQ((Error{ErrorKind::io, "cannot listen", "", "", "wait"}).message(), "cannot listen; wait");
  EXPECT_EQ((Error{ErrorKind::io, "cannot listen", "", "in use", ""}).message(), "cannot listen: in use");
}

TEST(Error, CallersAddWhatTheyKnow) {
  const Error error = Error{ErrorKind::io, "cannot read", "", "", "old"}.with_where("f").with_hint("new");
  EXPECT_EQ(error.message(), "cannot read f; new");
  EXPECT_EQ(error.kind, ErrorKind::io);
}

TEST(Result, IsAValueOrAnError) {
  Result<std::string> good("text");
  EXPECT_TRUE(good);
  EXPECT_EQ(*good, "text");
  EXPECT_EQ(good->size(), 4U);
  const Result<std::string> bad(Error{ErrorKind::limit, "too long", "", "", ""});
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().kind, ErrorKind::limit);
}

TEST(Result, AValueThatCannotBeCopiedIsMovedOut) {
  Result<std::unique_ptr<int>> made(std::make_unique<int>(3));
  const std::unique_ptr<int> taken = std::move(made).value();
  EXPECT_EQ(*taken, 3);
}

TEST(Result, OfNothingIsSuccessUnlessItHasAnError) {
  EXPECT_TRUE(Result<void>());
  const Result<void> bad(Error{ErrorKind::timeout, "t", "", "", ""});
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.error().what, "t");
}

}  // namespace
}  // namespace dlaunch::store
