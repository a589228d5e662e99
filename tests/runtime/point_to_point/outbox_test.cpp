// How envelopes are put into blocks, and how many blocks may be under way.

#include "runtime/point_to_point/outbox.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "dlaunch/error.h"
#include "tests/runtime/collectives/forwarding_transport.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::internal {
namespace {

std::vector<std::byte> bytes_of(std::size_t count, int value) {
  return {count, static_cast<std::byte>(value)};
}

// Keeps the messages that are sent.
class Sent final : public test::ForwardingTransport {
 public:
  Sent() : ForwardingTransport(std::make_unique<ThreadTransport>(std::make_shared<Mailbox>(2), 0)) {}

  std::unique_ptr<Transfer> post_send(int peer, std::uint64_t slot,
                                      std::span<const std::byte> bytes) override {
    EXPECT_EQ(peer, 1);
    EXPECT_EQ(slot, envelope_slot);
    blocks.emplace_back(bytes.begin(), bytes.end());
    return nullptr;
  }

  struct Read {
    Envelope envelope;
    std::vector<std::byte> content;
  };
  // The envelopes of a block without contents.
  [[nodiscard]] static std::vector<Read> read(std::span<const std::byte> block) {
    std::vector<Read> all;
    for (bool is_last = false; !is_last;) {
      const auto envelope = parse_envelope(block);
      if (!envelope) {
        ADD_FAILURE() << "no envelope";
        return all;
      }
      const auto content = block.subspan(sizeof *envelope, envelope->carried());
      all.push_back({*envelope, {content.begin(), content.end()}});
      block = block.subspan(sizeof *envelope + content.size());
      is_last = envelope->is_last != 0;
    }
    EXPECT_TRUE(block.empty());
    return all;
  }

  std::vector<std::vector<std::byte>> blocks;
};

class OutboxTest : public testing::Test {
 protected:
  void post() {
    outbox_.post(sent_, 1, [](const Envelope&, std::byte*) { return false; });
  }
  void fill_window() {
    for (std::size_t i = 0; i < Outbox::window; ++i) {
      outbox_.add({.kind = Envelope::Kind::rts, .number = i});
      post();
    }
    EXPECT_EQ(sent_.blocks.size(), Outbox::window);
  }

  Sent sent_;
  Outbox outbox_;
};

TEST_F(OutboxTest, EnvelopeWithinTheWindowIsSentAtOnce) {
  const auto content = bytes_of(9, 3);
  outbox_.add({.kind = Envelope::Kind::eager, .tag = 5, .count = 9}, content);
  post();
  ASSERT_EQ(sent_.blocks.size(), 1U);
  const auto envelopes = Sent::read(sent_.blocks[0]);
  ASSERT_EQ(envelopes.size(), 1U);
  EXPECT_EQ(envelopes[0].envelope.tag, 5U);
  EXPECT_EQ(envelopes[0].content, content);
  EXPECT_FALSE(outbox_.has_waiting());
}

TEST_F(OutboxTest, QueuedEnvelopesAreSentTogetherInOrder) {
  fill_window();
  for (std::uint64_t i = 0; i < 100; ++i) outbox_.add({.kind = Envelope::Kind::cts, .number = i});
  post();
  EXPECT_EQ(sent_.blocks.size(), Outbox::window);
  EXPECT_TRUE(outbox_.has_waiting());
  EXPECT_EQ(outbox_.receive(1).size(), 1U);
  post();
  ASSERT_EQ(sent_.blocks.size(), Outbox::window + 1);
  const auto envelopes = Sent::read(sent_.blocks.back());
  ASSERT_EQ(envelopes.size(), 100U);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(envelopes[i].envelope.number, i);
  EXPECT_EQ(envelopes[0].envelope.acknowledged, 1U);
  EXPECT_EQ(envelopes[1].envelope.acknowledged, 0U);
  EXPECT_FALSE(outbox_.has_waiting());
}

TEST_F(OutboxTest, ABlockHoldsTheLongestMessageAndNoMoreThanItsLength) {
  fill_window();
  const auto longest = bytes_of(short_message, 1);
  const auto half = bytes_of(short_message / 2, 2);
  const auto rest = bytes_of(short_message / 2 - sizeof(Envelope), 3);
  outbox_.add({.kind = Envelope::Kind::eager, .count = longest.size()}, longest);
  outbox_.add({.kind = Envelope::Kind::eager, .count = half.size()}, half);
  outbox_.add({.kind = Envelope::Kind::eager, .count = rest.size()}, rest);
  outbox_.add({.kind = Envelope::Kind::cts});
  EXPECT_EQ(outbox_.receive(3).size(), 3U);
  post();
  ASSERT_EQ(sent_.blocks.size(), Outbox::window + 3);
  const auto block = [&](std::size_t i) { return Sent::read(sent_.blocks[Outbox::window + i]); };
  ASSERT_EQ(block(0).size(), 1U);
  EXPECT_EQ(block(0)[0].content, longest);
  ASSERT_EQ(block(1).size(), 2U);
  EXPECT_EQ(block(1)[0].content, half);
  EXPECT_EQ(block(1)[1].content, rest);
  EXPECT_EQ(sent_.blocks[Outbox::window + 1].size(), envelope_block);
  EXPECT_EQ(block(2).size(), 1U);
}

TEST_F(OutboxTest, DataAreAskedForWhenTheyGo) {
  for (const int number : {1, 2, 3}) {
    outbox_.add({.kind = Envelope::Kind::data, .count = 4, .number = static_cast<std::uint64_t>(number)});
  }
  outbox_.add({.kind = Envelope::Kind::data, .count = 0, .number = 4});
  std::vector<std::uint64_t> asked;
  outbox_.post(sent_, 1, [&](const Envelope& envelope, std::byte* content) {
    asked.push_back(envelope.number);
    if (envelope.number == 2) return false;
    std::memset(content, static_cast<int>(envelope.number), envelope.payload());
    return true;
  });
  EXPECT_EQ(asked, (std::vector<std::uint64_t>{1, 2, 3, 4}));
  ASSERT_EQ(sent_.blocks.size(), 1U);
  const auto envelopes = Sent::read(sent_.blocks[0]);
  ASSERT_EQ(envelopes.size(), 3U);
  EXPECT_EQ(envelopes[0].content, bytes_of(4, 1));
  EXPECT_EQ(envelopes[1].content, bytes_of(4, 3));
  EXPECT_EQ(envelopes[2].envelope.number, 4U);
}

// The data are cancelled: no block is sent.
TEST_F(OutboxTest, NothingGoesWhereNothingIsLeft) {
  outbox_.add({.kind = Envelope::Kind::data, .count = 4, .number = 1});
  post();
  EXPECT_TRUE(sent_.blocks.empty());
  EXPECT_FALSE(outbox_.has_waiting());
}

// Two ranks without room must not wait for each other's acknowledgement.
TEST_F(OutboxTest, AcknowledgementsNeedNoRoom) {
  fill_window();
  outbox_.add({.kind = Envelope::Kind::rts});
  for (std::size_t i = 1; i < Outbox::window / 2; ++i) (void)outbox_.receive(0);
  post();
  EXPECT_EQ(sent_.blocks.size(), Outbox::window);
  (void)outbox_.receive(0);
  post();
  ASSERT_EQ(sent_.blocks.size(), Outbox::window + 1);
  EXPECT_EQ(Sent::read(sent_.blocks.back())[0].envelope.acknowledged, Outbox::window / 2);
  post();
  EXPECT_EQ(sent_.blocks.size(), Outbox::window + 1);
}

TEST_F(OutboxTest, AcknowledgesWithoutEnvelopesToSend) {
  for (std::size_t i = 0; i < Outbox::window / 2; ++i) (void)outbox_.receive(0);
  post();
  ASSERT_EQ(sent_.blocks.size(), 1U);
  const auto envelopes = Sent::read(sent_.blocks[0]);
  ASSERT_EQ(envelopes.size(), 1U);
  EXPECT_EQ(envelopes[0].envelope.kind, Envelope::Kind::credit);
  EXPECT_EQ(envelopes[0].envelope.count, 0U);
  EXPECT_EQ(envelopes[0].envelope.acknowledged, Outbox::window / 2);
}

// As from a peer with another implementation.
TEST_F(OutboxTest, NoMoreIsAcknowledgedThanWasSent) {
  fill_window();
  EXPECT_EQ(outbox_.receive(1000).size(), Outbox::window);
  EXPECT_TRUE(outbox_.take_posted().empty());
}

}  // namespace
}  // namespace dlaunch::internal
