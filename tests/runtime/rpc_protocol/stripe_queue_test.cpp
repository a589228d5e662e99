// The order in which stripes are sent, and what they consist of.

#include "runtime/rpc_protocol/stripe_queue.h"

#include <gtest/gtest.h>

#include "store/base/bytes.h"
#include "tests/runtime/rpc_protocol/feed.h"
#include "tests/runtime/rpc_protocol/stripes.h"

namespace dlaunch::internal {
namespace {

using test::bytes_of;
using test::long_message;
using test::one_stripe;

TEST(StripeQueue, AStripedMessageEndsWithTheSizeOfItsBlocks) {
  RpcMessage call = long_message(PartHead::request, 1, {40'000, 500'001});
  make_striped(call);
  EXPECT_EQ(call.kind, PartHead::striped_request);
  EXPECT_EQ(call.body.front.size(), 7U + 8U);
  EXPECT_EQ(call.body.front.substr(0, 7), "front 1");
  EXPECT_EQ(ByteReader(as_byte_span(std::string_view(call.body.front).substr(7))).u64(), 540'001U);
  RpcMessage answer = long_message(PartHead::result, 1, {40'000});
  make_striped(answer);
  EXPECT_EQ(answer.kind, PartHead::striped_result);
}

TEST(StripeQueue, StripesHaveTheBytesOfTheBlocks) {
  for (const std::size_t at_once : {std::size_t{13}, std::size_t{1000}, SIZE_MAX}) {
    StripeQueue queue;
    const RpcMessage message =
        long_message(PartHead::request, 3, {40'000, 70, 2 * one_stripe, 64, one_stripe + 1});
    queue.push(message);
    std::string all;
    std::uint64_t at = 0;
    const std::uint64_t size = message.body.size_of_blocks();
    while (std::optional<Stripe> stripe = queue.next()) {
      EXPECT_EQ(stripe->number(), 3U);
      const std::string bytes = bytes_of(*stripe, at_once);
      const auto head = StripeHead::parse(std::as_bytes(std::span(bytes)).first<StripeHead::size>());
      ASSERT_TRUE(head);
      EXPECT_EQ(head->at, at);
      EXPECT_EQ(head->blocks, size);
      all += bytes.substr(StripeHead::size);
      at += one_stripe;
    }
    EXPECT_TRUE(queue.is_empty());
    codec::Bytes blocks = message.body;
    blocks.front.clear();
    EXPECT_TRUE(all == test::text_of(blocks));
  }
}

TEST(StripeQueue, MessagesTakeTurns) {
  StripeQueue queue;
  for (std::uint64_t number = 1; number <= 20; ++number)
    queue.push(long_message(PartHead::request, number, {2 * one_stripe}));
  std::vector<std::uint64_t> order;
  while (const std::optional<Stripe> stripe = queue.next()) order.push_back(stripe->number());
  ASSERT_EQ(order.size(), 40U);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(order[i], i + 1);
    EXPECT_EQ(order[i + 16], i + 1);
  }
  EXPECT_EQ(order[32], 17U);
}

TEST(StripeQueue, TheCallersMemoryIsNotReadAfterItIsKept) {
  std::string memory(3 * one_stripe, 'm');
  const auto refers = [&](std::uint64_t number) {
    RpcMessage message{PartHead::request, number, "front"};
    message.body.blocks.push_back(
        {std::shared_ptr<const void>(std::shared_ptr<void>(), memory.data()), memory.size()});
    return message;
  };
  StripeQueue queue;
  queue.push(refers(1));
  queue.push(refers(2));
  std::optional<Stripe> under_way = queue.next();
  ASSERT_TRUE(under_way);
  std::array<std::span<const std::byte>, 4> places;
  (void)under_way->pieces(places);
  EXPECT_FALSE(under_way->advance(100));
  const std::vector<std::uint64_t> numbers = {1, 7};
  queue.keep(numbers);
  under_way->keep();
  std::ranges::fill(memory, 'x');
  EXPECT_EQ(bytes_of(*under_way), std::string(one_stripe + StripeHead::size - 100, 'm'));
  int kept = 0;
  while (const std::optional<Stripe> stripe = queue.next()) {
    const char expected = stripe->number() == 1 ? 'm' : 'x';
    EXPECT_EQ(bytes_of(*stripe).back(), expected);
    kept += expected == 'm' ? 1 : 0;
  }
  EXPECT_EQ(kept, 2);
}

}  // namespace
}  // namespace dlaunch::internal
