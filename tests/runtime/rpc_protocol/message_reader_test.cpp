// Messages from the bytes of a connection, in whatever pieces these arrive.

#include "runtime/rpc_protocol/message_reader.h"

#include <gtest/gtest.h>

#include "tests/runtime/rpc_protocol/feed.h"

namespace dlaunch::internal {
namespace {

std::string part(PartHead::Kind kind, std::uint64_t number, std::uint64_t total, const std::string& bytes,
                 std::uint64_t blocks = 0) {
  const PartHead head{kind, static_cast<std::uint32_t>(bytes.size()), number, total, blocks};
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
  result.wrong = test::feed(reader, std::as_bytes(std::span(bytes)), most, result.messages);
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
  EXPECT_EQ(result.messages[0].body.front, "me");
  EXPECT_EQ(result.messages[1].number, 2U);  // before the long one that had begun
  EXPECT_EQ(result.messages[2].body.front, longest + "end");
  EXPECT_EQ(result.messages[3].body.front, "abcd");
  EXPECT_EQ(result.messages[4].kind, PartHead::result);
  EXPECT_EQ(result.messages[4].number, 9U);
}

TEST_P(InPieces, BlocksArriveApartFromTheFront) {
  constexpr std::size_t long_part = 100'000;
  const std::string blocks(2 * long_part, 'b');
  const std::string first = "front" + blocks.substr(0, long_part);
  const std::string second = blocks.substr(long_part);
  const std::uint64_t total = 5 + blocks.size();
  const auto result = read(part(PartHead::request, 1, total, first, blocks.size()) +       //
                               whole(PartHead::request, 2, "between") +                    //
                               part(PartHead::request, 3, 40, "only a", 34) +              //
                               part(PartHead::request, 1, total, second, blocks.size()) +  //
                               part(PartHead::request, 3, 40, std::string(34, ' '), 34) +  //
                               whole(PartHead::request, 4, "after"),
                           GetParam());
  ASSERT_FALSE(result.wrong);
  ASSERT_EQ(result.messages.size(), 4U);
  EXPECT_EQ(result.messages[0].body.front, "between");
  EXPECT_EQ(result.messages[1].body.front, "front");
  ASSERT_EQ(result.messages[1].body.blocks.size(), 1U);
  EXPECT_TRUE(result.messages[1].body.blocks[0].view() == blocks);
  EXPECT_EQ(result.messages[2].body.front, "only a");
  EXPECT_EQ(result.messages[2].body.blocks[0].view(), std::string(34, ' '));
  EXPECT_EQ(result.messages[3].body.front, "after");
}

// A long message's bytes are stored where its receiver finds them, and its next head does not bring others to
// the buffer.
TEST(MessageReader, ReadsLongPartsDirectly) {
  MessageReader reader;
  std::vector<RpcMessage> messages;
  constexpr std::size_t length = PartHead::longest_part;
  const PartHead head{PartHead::request, length, 1, 2 * length, 2 * length};
  const auto bytes = std::as_bytes(std::span(&head, 1));
  ASSERT_FALSE(test::feed(reader, bytes, bytes.size(), messages));
  const MessageReader::Space first = reader.space();
  EXPECT_EQ(first.direct.size(), length);
  EXPECT_EQ(first.buffer.size(), PartHead::size);
  std::ranges::fill(first.direct, std::byte{1});
  std::ranges::copy(bytes, first.buffer.begin());
  ASSERT_FALSE(reader.advance(length + PartHead::size, messages));
  const MessageReader::Space second = reader.space();
  EXPECT_EQ(second.direct.data(), first.direct.data() + length);
  EXPECT_GT(second.buffer.size(), PartHead::size);
  std::ranges::fill(second.direct, std::byte{2});
  ASSERT_FALSE(reader.advance(length, messages));
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(static_cast<const void*>(first.direct.data()), messages[0].body.blocks.at(0).data.get());
}

TEST(MessageReader, ReportsThatThereIsNoMemory) {
  constexpr std::uint64_t most = PartHead::longest_message;
  std::string bytes;
  for (std::uint64_t i = 1; i <= 200; ++i) bytes += part(PartHead::request, i, most, "a", most);
  MessageReader reader;
  std::vector<RpcMessage> messages;
  const auto wrong = test::feed(reader, std::as_bytes(std::span(bytes)), bytes.size(), messages);
  EXPECT_EQ(wrong, "there is no memory for a message of 1099511627776 bytes that it has begun");
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
