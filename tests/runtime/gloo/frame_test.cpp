// Frames as they come from another process: any bytes.

#include "runtime/backends/gloo/frame.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <random>

namespace dlaunch::internal {
namespace {

bool is_accepted(std::uint32_t kind, std::size_t length) {
  Frame frame;
  frame.kind = kind;
  frame.length = static_cast<std::uint32_t>(length);
  return Frame::parse(frame.bytes()).has_value();
}

TEST(Frame, ComesBackAsItWas) {
  const Frame sent{.kind = Frame::eager,
                   .context_id = 0xfffffffe,
                   .rank = 3,
                   .length = 77,
                   .number = (std::uint64_t{1} << 63U) + 5,
                   .answer_to = 12,
                   .to_rank = 4};
  const std::optional<Frame> got = Frame::parse(sent.bytes());
  ASSERT_TRUE(got);
  EXPECT_EQ(got->bytes(), sent.bytes());
  EXPECT_EQ(got->number, sent.number);
  EXPECT_EQ(got->to_rank, 4U);
}

TEST(Frame, OfAnUnknownKindIsRejected) {
  for (std::uint32_t kind = Frame::wants; kind <= Frame::progress_reply; ++kind)
    EXPECT_TRUE(is_accepted(kind, 0));
  for (const std::uint32_t kind : {0U, Frame::progress_reply + 1U, 0x01000000U, 0xffffffffU}) {
    EXPECT_FALSE(is_accepted(kind, 0)) << kind;
  }
}

// The receiver's buffer holds a whole frame of every kind but a part of a message.
TEST(Frame, OfMoreThanTheLongestIsRejected) {
  EXPECT_TRUE(is_accepted(Frame::data, Frame::longest_part));
  EXPECT_FALSE(is_accepted(Frame::data, Frame::longest_part + 1));
  for (const std::uint32_t kind :
       {Frame::wants, Frame::done, Frame::eager, Frame::goodbye, Frame::progress_reply}) {
    EXPECT_TRUE(is_accepted(kind, Frame::longest_whole)) << kind;
    EXPECT_FALSE(is_accepted(kind, Frame::longest_whole + 1)) << kind;
  }
  EXPECT_FALSE(is_accepted(Frame::data, 0xffffffff));
}

// Answers are not answered.
TEST(Frame, ForAMemberIsAnsweredIfItsGroupIsGone) {
  for (std::uint32_t kind = Frame::wants; kind <= Frame::progress_reply; ++kind) {
    Frame frame;
    frame.kind = kind;
    const bool is_answer = kind == Frame::goodbye_ack || kind == Frame::gone || kind == Frame::progress_reply;
    EXPECT_EQ(frame.is_for_member(), !is_answer) << kind;
  }
}

TEST(Frame, OfRandomBytesIsWithinItsLimitsOrRejected) {
  std::mt19937 random(3);
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    Frame::Bytes bytes;
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 4 == 0 ? random() : 0);
    const std::optional<Frame> frame = Frame::parse(bytes);
    if (!frame) continue;
    ++accepted;
    ASSERT_LE(frame->length, Frame::longest_part);
    ASSERT_LE(frame->kind, Frame::progress_reply);
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace dlaunch::internal
