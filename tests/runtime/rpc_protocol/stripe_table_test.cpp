// Striped messages are put together from stripes and fronts in any order, and wrong ones are rejected.

#include "runtime/rpc_protocol/stripe_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "store/base/bytes.h"
#include "tests/runtime/rpc_protocol/feed.h"
#include "tests/runtime/rpc_protocol/stripes.h"

namespace dlaunch::internal {
namespace {

using test::bytes_of;
using test::long_message;
using test::one_stripe;

StripeHead head_of(const std::string& bytes) {
  return *StripeHead::parse(std::as_bytes(std::span(bytes)).first<StripeHead::size>());
}

class Assembly : public testing::Test {
 protected:
  std::optional<RpcMessage> store(const std::string& stripe) {
    const StripeHead head = head_of(stripe);
    std::span<std::byte> place;
    EXPECT_EQ(table_.begin(head, place), std::nullopt);
    EXPECT_EQ(place.size(), head.length);
    std::ranges::copy(std::as_bytes(std::span(stripe)).subspan(StripeHead::size), place.begin());
    return table_.end(head);
  }
  std::string wrong_with(const StripeHead& head) {
    std::span<std::byte> place;
    return table_.begin(head, place).value_or("nothing");
  }
  std::string wrong_with(RpcMessage front) {
    bool is_complete = false;
    return table_.add_front(front, is_complete).value_or("nothing");
  }
  static RpcMessage front(std::uint64_t number, std::uint64_t size) {
    RpcMessage message{PartHead::striped_request, number, "f"};
    ByteWriter(message.body.front).u64(size);
    return message;
  }

  StripeTable table_;
};

TEST_F(Assembly, AMessageIsCompleteWithItsLastPiece) {
  std::mt19937 random(1);  // NOLINT: the same each time
  for (std::uint64_t number = 1; number <= 30; ++number) {
    RpcMessage sent = long_message(PartHead::result, number, {40'000, number * 70'000, 64});
    const codec::Bytes body = sent.body;
    make_striped(sent);
    RpcMessage front{sent.kind, number, sent.body.front};
    StripeQueue queue;
    queue.push(std::move(sent));
    std::vector<std::string> pieces = {""};  // the front
    while (const std::optional<Stripe> stripe = queue.next()) pieces.push_back(bytes_of(*stripe));
    std::ranges::shuffle(pieces, random);
    std::optional<RpcMessage> complete;
    for (const std::string& piece : pieces) {
      EXPECT_FALSE(complete);
      if (!piece.empty()) {
        complete = store(piece);
        continue;
      }
      bool is_complete = false;
      EXPECT_EQ(table_.add_front(front, is_complete), std::nullopt);
      if (is_complete) complete = std::move(front);
    }
    ASSERT_TRUE(complete);
    EXPECT_EQ(complete->kind, PartHead::result);
    EXPECT_EQ(complete->number, number);
    EXPECT_EQ(complete->body.front, body.front);
    EXPECT_TRUE(test::text_of(complete->body) == test::text_of(body));
  }
}

TEST_F(Assembly, WrongStripesAreRejected) {
  EXPECT_EQ(wrong_with(StripeHead::of(1, one_stripe, 3 * one_stripe)), "nothing");
  EXPECT_EQ(wrong_with(StripeHead::of(1, 0, 3 * one_stripe)), "nothing");
  EXPECT_EQ(wrong_with(StripeHead::of(1, one_stripe, 3 * one_stripe)), "it has sent a stripe twice");
  EXPECT_EQ(wrong_with(StripeHead::of(2, 2 * one_stripe, 3 * one_stripe)), "nothing");
  EXPECT_EQ(wrong_with(StripeHead::of(2, 2 * one_stripe, 3 * one_stripe)), "it has sent a stripe twice");
  EXPECT_EQ(wrong_with(StripeHead::of(2, 0, 3 * one_stripe + 1)),
            "it has sent a stripe that does not belong to its message");
}

TEST_F(Assembly, WrongFrontsAreRejected) {
  EXPECT_EQ(wrong_with(RpcMessage{PartHead::striped_request, 1, "short"}),
            "it has sent a striped message without a size");
  EXPECT_EQ(wrong_with(front(1, 0)), "it has sent a striped message of a wrong size");
  EXPECT_EQ(wrong_with(front(1, PartHead::longest_message + 1)),
            "it has sent a striped message of a wrong size");
  EXPECT_EQ(wrong_with(front(1, one_stripe)), "nothing");
  EXPECT_EQ(wrong_with(front(1, one_stripe)), "it has sent the front of a message twice");
  EXPECT_EQ(wrong_with(StripeHead::of(1, 0, one_stripe + 1)),
            "it has sent a stripe that does not belong to its message");
}

TEST_F(Assembly, BoundsTheMessagesThatHaveBegun) {
  for (std::uint64_t i = 1; i <= StripeTable::most_open; ++i) EXPECT_EQ(wrong_with(front(i, 1)), "nothing");
  EXPECT_EQ(wrong_with(front(0, 1)), "it has begun too many messages at once");
  EXPECT_EQ(wrong_with(StripeHead::of(0, 0, one_stripe)), "it has begun too many messages at once");
}

TEST_F(Assembly, ReportsThatThereIsNoMemory) {
  std::string wrong = "nothing";
  for (std::uint64_t i = 1; i <= 200 && wrong == "nothing"; ++i)
    wrong = wrong_with(StripeHead::of(i, 0, PartHead::longest_message));
  EXPECT_EQ(wrong, "there is no memory for a message of 1099511627776 bytes that it has begun");
}

}  // namespace
}  // namespace dlaunch::internal
