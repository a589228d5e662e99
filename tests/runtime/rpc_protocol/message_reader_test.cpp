// Messages from the bytes of a connection, in whatever pieces these arrive.

#include "runtime/rpc_protocol/message_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace dlaunch::internal {
namespace {

std::string part(PartHead::Kind kind, std::uint64_t number, std::uint64_t total, const std::string& bytes) {
  const PartHead head{kind, static_cast<std::uint32_t>(bytes.size()), number, total};
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + bytes;
}
std::string whole(PartHead::Kind kind, std::uint64_t number, const std::string& bytes) {
  return part(kind, number, bytes.size(), bytes);
}

struct Read {
  std::vector<RpcMessage> messages;
  std::optional<std::string> wrong;
};
// At most `most` bytes at a time.
Read read(const std::string& bytes, std::size_t most) {
  MessageReader reader;
  Read result;
  for (std::size_t at = 0; at < bytes.size() && !result.wrong;) {
    const auto space = reader.space();
    EXPECT_FALSE(space.empty());
    const std::size_t count = std::min({space.size(), most, bytes.size() - at});
    std::memcpy(space.data(), bytes.data() + at, count);
    at += count;
    result.wrong = reader.advance(count, result.messages);
  }
  return result;
}

class InPieces : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, InPieces, testing::Values(1, 7, 24, 4096, 1 << 20));

TEST_P(InPieces, MessagesArriveWhole) {
  const std::string longest(PartHead::longest_part, 'l');
  const auto result = read(whole(PartHead::hello, 0, "me") +                              //
                               part(PartHead::request, 1, longest.size() + 3, longest) +  //
                               whole(PartHead::request, 2, "") +                          //
                               part(PartHead::request, 3, 4, "ab") +                      //
                               part(PartHead::request, 1, longest.size() + 3, "end") +    //
                               part(PartHead::request, 3, 4, "cd") +                      //
                               whole(PartHead::result, 9, "r"),
                           GetParam());
  ASSERT_FALSE(result.wrong);
  ASSERT_EQ(result.messages.size(), 5U);
  EXPECT_EQ(result.messages[0].body, "me");
  EXPECT_EQ(result.messages[1].number, 2U);  // before the long one that had begun
  EXPECT_EQ(result.messages[2].body, longest + "end");
  EXPECT_EQ(result.messages[3].body, "abcd");
  EXPECT_EQ(result.messages[4].kind, PartHead::result);
  EXPECT_EQ(result.messages[4].number, 9U);
}

std::string wrong_with(const std::string& bytes) { return read(bytes, 4096).wrong.value_or("nothing"); }

TEST(MessageReader, RejectsWhatIsNoMessage) {
  EXPECT_EQ(wrong_with(std::string(PartHead::size, 'x')), "it has sent bytes that are no message");
  EXPECT_EQ(wrong_with(std::string(PartHead::size - 1, 'x')), "nothing");
}

TEST(MessageReader, RejectsPartsOfAnotherMessage) {
  const std::string wrong = "it has sent a part that does not belong to its message";
  EXPECT_EQ(wrong_with(part(PartHead::request, 1, 4, "ab") + part(PartHead::request, 1, 5, "cde")), wrong);
  EXPECT_EQ(wrong_with(part(PartHead::request, 1, 4, "ab") + part(PartHead::request, 1, 4, "cde")), wrong);
  EXPECT_EQ(wrong_with(part(PartHead::request, 1, 4, "ab") + part(PartHead::result, 1, 4, "cd")), wrong);
}

TEST(MessageReader, BoundsTheMessagesThatHaveBegun) {
  std::string bytes;
  for (std::uint64_t i = 1; i <= MessageReader::most_open; ++i) bytes += part(PartHead::request, i, 2, "a");
  EXPECT_EQ(wrong_with(bytes), "nothing");
  bytes += part(PartHead::request, MessageReader::most_open + 1, 2, "a");
  EXPECT_EQ(wrong_with(bytes), "it has begun too many messages at once");
}

}  // namespace
}  // namespace dlaunch::internal
