// The head of a stripe, as it comes from outside.

#include "runtime/rpc_protocol/stripe_head.h"

#include <gtest/gtest.h>

#include "tests/runtime/rpc_protocol/stripes.h"

namespace dlaunch::internal {
namespace {

std::optional<StripeHead> parsed_stripe(const StripeHead& head) {
  return StripeHead::parse(std::as_bytes(std::span(&head, 1)).first<StripeHead::size>());
}

TEST(StripeHead, IsReadAsItWasWritten) {
  for (const std::uint64_t at : {std::uint64_t{0}, test::one_stripe, 2 * test::one_stripe}) {
    const auto head = parsed_stripe(StripeHead::of(7, at, 2 * test::one_stripe + 5));
    ASSERT_TRUE(head) << at;
    EXPECT_EQ(head->number, 7U);
    EXPECT_EQ(head->at, at);
    EXPECT_EQ(head->blocks, 2 * test::one_stripe + 5);
    EXPECT_EQ(head->length, at == 2 * test::one_stripe ? 5U : test::one_stripe);
  }
  EXPECT_TRUE(parsed_stripe(StripeHead::of(1, 0, PartHead::longest_message)));
}

TEST(StripeHead, OfNoStripeIsRejected) {
  const auto with = [](std::uint32_t kind, std::uint64_t length, std::uint64_t at, std::uint64_t blocks) {
    return parsed_stripe({kind, static_cast<std::uint32_t>(length), 1, at, blocks});
  };
  constexpr std::uint32_t stripe = StripeHead::stripe;
  EXPECT_TRUE(with(stripe, test::one_stripe, test::one_stripe, 3 * test::one_stripe));
  EXPECT_FALSE(with(PartHead::request, test::one_stripe, test::one_stripe, 3 * test::one_stripe));
  EXPECT_FALSE(with(stripe + 1, test::one_stripe, test::one_stripe, 3 * test::one_stripe));
  EXPECT_FALSE(
      with(stripe, test::one_stripe - 1, test::one_stripe, 3 * test::one_stripe));  // shorter than it must be
  EXPECT_FALSE(with(stripe, test::one_stripe, 2 * test::one_stripe, 3 * test::one_stripe - 1));
  EXPECT_FALSE(
      with(stripe, test::one_stripe, test::one_stripe + 1, 3 * test::one_stripe));  // not where one begins
  EXPECT_FALSE(with(stripe, 0, 3 * test::one_stripe, 3 * test::one_stripe));        // behind the end
  EXPECT_FALSE(with(stripe, 0, 0, 0));
  EXPECT_FALSE(with(stripe, test::one_stripe, 0, PartHead::longest_message + 1));
  EXPECT_FALSE(with(stripe, test::one_stripe, UINT64_MAX - test::one_stripe + 1, UINT64_MAX));
}

}  // namespace
}  // namespace dlaunch::internal
