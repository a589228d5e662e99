// The head of a part, as it comes from outside.

#include "runtime/rpc_protocol/part_head.h"

#include <gtest/gtest.h>

namespace dlaunch::internal {
namespace {

std::optional<PartHead> parsed(const PartHead& head) {
  return PartHead::parse(std::as_bytes(std::span(&head, 1)).first<PartHead::size>());
}

TEST(PartHead, IsReadAsItWasWritten) {
  const auto head = parsed({PartHead::result, 7, 12, 70});
  ASSERT_TRUE(head);
  EXPECT_EQ(head->kind, PartHead::result);
  EXPECT_EQ(head->length, 7U);
  EXPECT_EQ(head->number, 12U);
  EXPECT_EQ(head->total, 70U);
  EXPECT_TRUE(parsed({PartHead::request, 0, 1, 0}));
}

TEST(PartHead, OfNoMessageIsRejected) {
  EXPECT_FALSE(parsed({0, 1, 1, 1}));                             // an unknown kind
  EXPECT_FALSE(parsed({PartHead::striped_result + 1, 1, 1, 1}));  // the same
  EXPECT_FALSE(parsed({PartHead::request, 8, 1, 7}));             // longer than its message
  EXPECT_FALSE(parsed({PartHead::request, 0, 1, 7}));             // a part without bytes: it would never end
  EXPECT_FALSE(parsed({PartHead::request, PartHead::longest_part + 1, 1, PartHead::longest_message}));
  EXPECT_FALSE(parsed({PartHead::request, 1, 1, PartHead::longest_message + 1}));
}

}  // namespace
}  // namespace dlaunch::internal
