// Stripes from the bytes of a connection, in whatever pieces these arrive.

#include "runtime/rpc_protocol/stripe_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "runtime/rpc_protocol/stripe_table.h"
#include "tests/runtime/rpc_protocol/feed.h"
#include "tests/runtime/rpc_protocol/stripes.h"

namespace dlaunch::internal {
namespace {

// One connection.
struct Connection {
  std::optional<std::string> feed(std::string_view bytes, std::size_t most, StripeTable& table,
                                  std::vector<RpcMessage>& complete) {
    const auto begin = [&](const StripeHead& head, std::span<std::byte>& place) {
      return table.begin(head, place);
    };
    const auto end = [&](const StripeHead& head) {
      if (std::optional<RpcMessage> message = table.end(head)) complete.push_back(*std::move(message));
    };
    while (!bytes.empty()) {
      const StripeReader::Space space = reader.space();
      EXPECT_FALSE(space.head.empty());
      std::size_t stored = 0;
      for (const std::span<std::byte> place : {space.direct, space.head}) {
        const std::size_t count = std::min({place.size(), most - stored, bytes.size()});
        if (count > 0) std::memcpy(place.data(), bytes.data(), count);
        bytes.remove_prefix(count);
        stored += count;
      }
      if (std::optional<std::string> wrong = reader.advance(stored, {begin, end})) return wrong;
    }
    return std::nullopt;
  }
  StripeReader reader;
};

class StripesInPieces : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, StripesInPieces, testing::Values(7, 31, 4096, 1 << 20));

TEST_P(StripesInPieces, MessagesArriveOverSeveralConnections) {
  StripeTable table;
  std::vector<RpcMessage> complete;
  std::vector<codec::Bytes> sent;
  StripeQueue queue;
  for (std::uint64_t number = 1; number <= 3; ++number) {
    RpcMessage message = test::long_message(PartHead::request, number, {400'000 * number, 64, 33'333});
    sent.push_back(message.body);
    make_striped(message);
    RpcMessage front{message.kind, number, message.body.front};
    bool is_complete = false;
    ASSERT_EQ(table.add_front(front, is_complete), std::nullopt);
    queue.push(std::move(message));
  }
  std::array<Connection, 3> connections;
  for (std::size_t i = 0; const std::optional<Stripe> stripe = queue.next(); ++i)
    ASSERT_EQ(connections[i % 3].feed(test::bytes_of(*stripe), GetParam(), table, complete), std::nullopt);
  ASSERT_EQ(complete.size(), 3U);
  for (const RpcMessage& message : complete)
    EXPECT_TRUE(test::text_of(message.body) == test::text_of(sent[message.number - 1]));
}

TEST(StripeReader, RejectsWhatIsNoStripe) {
  StripeTable table;
  std::vector<RpcMessage> complete;
  EXPECT_EQ(Connection().feed(std::string(31, 'x'), 4096, table, complete), std::nullopt);
  EXPECT_EQ(Connection().feed(std::string(32, 'x'), 4096, table, complete),
            "it has sent bytes that are no stripe");
  const StripeHead head = StripeHead::of(1, 0, 3);
  const std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  EXPECT_EQ(Connection().feed(bytes + "abc" + bytes, 1, table, complete), "it has sent a stripe twice");
}

}  // namespace
}  // namespace dlaunch::internal
