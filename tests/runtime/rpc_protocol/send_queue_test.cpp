// The order in which messages are sent, and that they arrive as they were pushed.

#include "runtime/rpc_protocol/send_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>

#include "tests/runtime/rpc_protocol/feed.h"

namespace dlaunch::internal {
namespace {

RpcMessage request(std::uint64_t number, std::size_t size) {
  return {PartHead::request, number,
          std::string(size, static_cast<char>('a' + static_cast<int>(number % 26)))};
}

class Sending : public testing::Test {
 protected:
  // Sends at most so many bytes to the reader; how many.
  std::size_t send(std::size_t most) {
    std::array<std::span<const std::byte>, 64> pieces;
    std::size_t sent = 0;
    for (std::span<const std::byte> piece : queue_.next(pieces)) {
      piece = piece.first(std::min(piece.size(), most - sent));
      sent += piece.size();
      EXPECT_EQ(test::feed(reader_, piece, piece.size(), arrived_), std::nullopt);
    }
    queue_.advance(sent);
    return sent;
  }
  void send_all(std::size_t at_once) {
    while (!queue_.is_empty()) ASSERT_GT(send(at_once), 0U);
  }
  std::vector<std::uint64_t> numbers() const {
    std::vector<std::uint64_t> all;
    for (const RpcMessage& message : arrived_) all.push_back(message.number);
    return all;
  }

  SendQueue queue_;
  MessageReader reader_;
  std::vector<RpcMessage> arrived_;
};

TEST_F(Sending, MessagesArriveAsTheyWerePushed) {
  const std::vector<std::size_t> sizes = {0,
                                          1,
                                          SendQueue::short_message,
                                          SendQueue::short_message + 1,
                                          PartHead::longest_part,
                                          PartHead::longest_part + 1,
                                          2000000};
  for (const std::size_t at_once : {std::size_t{13}, std::size_t{1000}, std::size_t{1} << 24}) {
    SCOPED_TRACE(at_once);
    queue_ = {};
    reader_ = {};
    arrived_.clear();
    std::uint64_t number = 0;
    std::size_t bytes = 0;
    for (const std::size_t size : sizes) {
      queue_.push(request(++number, size));
      bytes += size;
    }
    EXPECT_EQ(queue_.bytes(), bytes);
    send_all(at_once);
    EXPECT_EQ(queue_.bytes(), 0U);
    ASSERT_EQ(arrived_.size(), sizes.size());
    for (const RpcMessage& message : arrived_) {
      const RpcMessage pushed = request(message.number, sizes[message.number - 1]);
      EXPECT_TRUE(message.body.front == pushed.body.front) << message.number;
    }
  }
}

codec::Bytes with_blocks(const std::string& front, const std::vector<std::size_t>& sizes) {
  codec::Bytes body(front);
  char fill = 'a';
  for (const std::size_t size : sizes) {
    const std::string bytes(size, fill++);
    body.blocks.push_back(codec::copy_of(bytes.data(), bytes.size()));
  }
  return body;
}

TEST_F(Sending, BlocksArriveBehindTheFront) {
  const std::vector<std::vector<std::size_t>> blocks = {
      {1}, {40'000, 70, 500'001}, {PartHead::longest_part, 64}, {2'000'000}};
  for (const std::size_t at_once : {std::size_t{13}, std::size_t{1000}, std::size_t{1} << 24}) {
    SCOPED_TRACE(at_once);
    std::uint64_t number = 0;
    for (const auto& sizes : blocks) queue_.push({PartHead::result, ++number, with_blocks("front", sizes)});
    arrived_.clear();
    send_all(at_once);
    ASSERT_EQ(arrived_.size(), blocks.size());
    for (const RpcMessage& message : arrived_) {
      const codec::Bytes sent = with_blocks("front", blocks[message.number - 1]);
      EXPECT_EQ(message.body.front, "front");
      EXPECT_TRUE(test::text_of(message.body) == test::text_of(sent)) << message.number;
      EXPECT_EQ(message.body.size(), sent.size());
    }
  }
}

// As a connection does that has found too little room for it.
TEST_F(Sending, AMessageThatHasBegunElsewhereIsContinued) {
  for (std::size_t sent = 0; sent < PartHead::size + 5; ++sent) {
    SCOPED_TRACE(sent);
    const RpcMessage message{PartHead::request, sent + 1, "front"};
    const PartHead head = SendQueue::head_of(message);
    std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
    bytes += message.body.front;
    const auto begun = std::as_bytes(std::span(bytes)).first(sent);
    EXPECT_EQ(test::feed(reader_, begun, sent, arrived_), std::nullopt);
    queue_.push_begun(message, sent);
    EXPECT_EQ(queue_.untouched().size(), sent == 0 ? 1U : 0U);
    queue_.push(request(1000 + sent, 10));
    EXPECT_EQ(queue_.size(), 2U);
    send_all(7);
    EXPECT_EQ(queue_.bytes(), 0U);
    ASSERT_EQ(arrived_.size(), 2U);
    EXPECT_EQ(arrived_[0].number, sent + 1);
    EXPECT_EQ(arrived_[0].body.front, "front");
    arrived_.clear();
  }
}

TEST_F(Sending, OfAStripedMessageOnlyTheFrontIsSent) {
  queue_.push({PartHead::striped_request, 1, with_blocks("front", {40'000, 500'001})});
  queue_.push({PartHead::striped_request, 2, with_blocks("dropped", {40'000})});
  EXPECT_EQ(queue_.bytes(), 12U);
  send(10);
  EXPECT_TRUE(queue_.take_striped().empty());
  const std::vector<std::uint64_t> second = {2};
  EXPECT_EQ(queue_.withdraw(second), (std::unordered_set<std::uint64_t>{2}));
  send_all(1000);
  ASSERT_EQ(arrived_.size(), 1U);
  EXPECT_EQ(arrived_[0].kind, PartHead::striped_request);
  EXPECT_EQ(arrived_[0].body.front, "front");
  EXPECT_TRUE(arrived_[0].body.blocks.empty());
  const std::vector<RpcMessage> striped = queue_.take_striped();
  ASSERT_EQ(striped.size(), 1U);
  EXPECT_EQ(striped[0].number, 1U);
  EXPECT_EQ(striped[0].body.size_of_blocks(), with_blocks("", {40'000, 500'001}).size());
  EXPECT_TRUE(queue_.take_striped().empty());
}

TEST_F(Sending, AMessageThatIsWithdrawnIsNotSentUnlessItHasBegun) {
  queue_.push(request(1, 100));
  queue_.push(request(2, 100));
  queue_.push(request(3, 100000));
  send(10);
  const std::vector<std::uint64_t> numbers = {1, 2, 3, 4};
  EXPECT_EQ(queue_.withdraw(numbers), (std::unordered_set<std::uint64_t>{2, 3}));
  EXPECT_EQ(queue_.bytes(), 100U);
  send_all(1000);
  ASSERT_EQ(this->numbers(), std::vector<std::uint64_t>{1});
  EXPECT_EQ(queue_.bytes(), 0U);
}

TEST_F(Sending, TheCallersMemoryIsNotReadAfterAMessageIsWithdrawn) {
  std::string memory(PartHead::longest_part + 5, 'm');
  const std::string before = memory;
  codec::Bytes body("front");
  body.blocks.push_back({std::shared_ptr<const void>(std::shared_ptr<void>(), memory.data()), memory.size()});
  queue_.push({PartHead::result, 1, std::move(body)});
  send(100);
  const std::vector<std::uint64_t> numbers = {1};
  EXPECT_TRUE(queue_.withdraw(numbers).empty());
  std::ranges::fill(memory, 'x');
  send_all(100000);
  ASSERT_EQ(arrived_.size(), 1U);
  EXPECT_TRUE(arrived_[0].body.blocks.at(0).view() == before);
}

TEST_F(Sending, AShortMessageOvertakesALongOne) {
  queue_.push({PartHead::result, 1, std::string(std::size_t{4} * 1024 * 1024, 'l')});
  send(1000);
  queue_.push({PartHead::result, 2, "short"});
  std::size_t sent = 0;
  while (arrived_.empty()) sent += send(1000);
  EXPECT_EQ(arrived_[0].number, 2U);
  EXPECT_LT(sent, 2 * PartHead::longest_part);
  send_all(100000);
  EXPECT_EQ(numbers(), (std::vector<std::uint64_t>{2, 1}));
}

TEST_F(Sending, LongMessagesTakeTurns) {
  queue_.push({PartHead::result, 1, std::string(10 * PartHead::longest_part, 'l')});
  queue_.push({PartHead::result, 2, std::string(2 * PartHead::longest_part, 'm')});
  send_all(100000);
  EXPECT_EQ(numbers(), (std::vector<std::uint64_t>{2, 1}));
}

TEST_F(Sending, ALongMessageArrivesBetweenShortOnesWithoutEnd) {
  queue_.push({PartHead::result, 1, std::string(3 * PartHead::longest_part, 'l')});
  std::uint64_t number = 1;
  const auto has_arrived = [&] {
    return std::ranges::any_of(arrived_, [](const RpcMessage& one) { return one.number == 1; });
  };
  for (int i = 0; i < 100 && !has_arrived(); ++i) {
    for (int j = 0; j < 1000; ++j) queue_.push({PartHead::result, ++number, "short one"});
    send(10000);
  }
  EXPECT_TRUE(has_arrived());
}

TEST_F(Sending, ManyLongMessagesKeepTheReadersLimit) {
  for (std::uint64_t i = 1; i <= 2 * MessageReader::most_open; ++i) {
    queue_.push(request(i, SendQueue::short_message + 1));
  }
  send_all(1 << 20);
  EXPECT_EQ(arrived_.size(), 2 * MessageReader::most_open);
}

TEST_F(Sending, WhatWasNotTouchedIsKnown) {
  queue_.push(request(1, 100));
  queue_.push(request(2, 100));
  queue_.push(request(3, 100000));
  send(10);
  EXPECT_EQ(queue_.untouched(), (std::unordered_set<std::uint64_t>{2, 3}));
  send(200);
  EXPECT_EQ(queue_.untouched(), (std::unordered_set<std::uint64_t>{3}));
  send_all(1000);
  EXPECT_TRUE(queue_.untouched().empty());
}

}  // namespace
}  // namespace dlaunch::internal
