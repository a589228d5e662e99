// The further connections of two workers: long messages in both directions, memory of callers, ends.

#include "runtime/rpc/side_links.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <map>

#include "tests/runtime/rpc/agents.h"
#include "tests/runtime/rpc_protocol/feed.h"
#include "tests/runtime/rpc_protocol/stripes.h"

namespace dlaunch::test {
namespace {

class Sides : public testing::Test {
 protected:
  explicit Sides(std::size_t count = 3) {
    for (std::size_t i = 0; i < count; ++i) {
      int ends[2];
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
      for (std::size_t j = 0; j < 2; ++j)
        EXPECT_TRUE(
            ends_[j]->add(Descriptor([&] { return ends[j]; }), threads_, [&, j] { lost_[j].open(); }));
    }
  }
  ~Sides() override {
    for (const auto& end : ends_) end->end();
    EXPECT_TRUE(threads_->stop(deadline_after(rpc_limit)));
  }
  Sides(const Sides&) = delete;
  Sides& operator=(const Sides&) = delete;

  // The front travels elsewhere.
  codec::Bytes send(std::size_t from, std::uint64_t number, const std::vector<std::size_t>& sizes) {
    RpcMessage message = long_message(PartHead::request, number, sizes);
    codec::Bytes body = message.body;
    make_striped(message);
    fronts_[1 - from].push_back({message.kind, number, message.body.front});
    ends_[from]->send(std::move(message));
    return body;
  }
  std::vector<RpcMessage> receive(std::size_t at, std::size_t count) {
    std::vector<RpcMessage> all;
    while (all.size() < count) {
      std::vector<RpcMessage> some = std::exchange(fronts_[at], {});
      EXPECT_EQ(ends_[at]->complete(some), std::nullopt);
      std::ranges::move(some, std::back_inserter(all));
      pollfd ready{ends_[at]->ready(), POLLIN, 0};
      if (all.size() < count && ::poll(&ready, 1, 30000) != 1) break;
    }
    return all;
  }

  const std::shared_ptr<StripeThreads> threads_ = std::make_shared<StripeThreads>();
  const std::shared_ptr<SideLinks> ends_[2] = {std::make_shared<SideLinks>(), std::make_shared<SideLinks>()};
  std::vector<RpcMessage> fronts_[2];
  Gate lost_[2];
};

TEST_F(Sides, CarryLongMessagesInBothDirections) {
  std::map<std::uint64_t, codec::Bytes> sent[2];
  for (std::uint64_t number = 1; number <= 6; ++number)
    for (std::size_t from = 0; from < 2; ++from)
      sent[from][number] = send(from, number, {3'000'000 * number, 64, 40'000 + from});
  for (std::size_t at = 0; at < 2; ++at) {
    const std::vector<RpcMessage> arrived = receive(at, 6);
    ASSERT_EQ(arrived.size(), 6U);
    for (const RpcMessage& message : arrived) {
      EXPECT_EQ(message.kind, PartHead::request);
      EXPECT_TRUE(text_of(message.body) == text_of(sent[1 - at][message.number])) << message.number;
    }
  }
  for (const auto& end : ends_) end->flush(deadline_after(rpc_limit));
}

// Nobody reads until the memory is another one's.
TEST(SideLinks, DoNotReadTheCallersMemoryAfterItIsKept) {
  const auto threads = std::make_shared<StripeThreads>();
  const auto sides = std::make_shared<SideLinks>();
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const Descriptor there([&] { return ends[1]; });
  ASSERT_TRUE(sides->add(Descriptor([&] { return ends[0]; }), threads, [] {}));
  std::string memory(4'000'000, 'm');
  RpcMessage message{PartHead::striped_request, 1, "front"};
  message.body.blocks.push_back(
      {std::shared_ptr<const void>(std::shared_ptr<void>(), memory.data()), memory.size()});
  sides->send(std::move(message));
  std::string got(100, '\0');
  ASSERT_EQ(recv(there.get(), got.data(), got.size(), MSG_WAITALL), 100);  // it has begun
  const std::vector<std::uint64_t> numbers = {1};
  sides->keep(numbers);
  std::ranges::fill(memory, 'x');
  const std::size_t stripes = (memory.size() + StripeHead::length_of_one - 1) / StripeHead::length_of_one;
  std::string rest(memory.size() + stripes * StripeHead::size - got.size(), '\0');
  ASSERT_EQ(recv(there.get(), rest.data(), rest.size(), MSG_WAITALL), static_cast<ssize_t>(rest.size()));
  EXPECT_EQ(std::ranges::count(got + rest, 'x'), 0);
  sides->end();
  EXPECT_TRUE(threads->stop(deadline_after(rpc_limit)));
}

TEST_F(Sides, AreLostWithOneOfThem) {
  EXPECT_TRUE(ends_[0]->are_open());
  ends_[0]->end();
  EXPECT_FALSE(ends_[0]->are_open());
  EXPECT_TRUE(lost_[1].wait());
  const Deadline limit = deadline_after(rpc_limit);
  while (!ends_[1]->why_lost() && !has_passed(limit)) ::poll(nullptr, 0, 1);
  EXPECT_EQ(ends_[1]->why_lost(), connection_was_closed);
  EXPECT_FALSE(ends_[0]->why_lost());  // this end has ended them itself
  EXPECT_FALSE(ends_[0]->add(Descriptor([] { return -1; }), threads_, [] {}));
}

// What was under way is given back at once.
TEST_F(Sides, KeepNothingAtTheirEnd) {
  const auto memory = std::make_shared<std::string>(8'000'000, 'm');
  RpcMessage message{PartHead::striped_request, 1, "front"};
  message.body.blocks.push_back({std::shared_ptr<const void>(memory, memory->data()), memory->size()});
  ends_[0]->send(std::move(message));
  ends_[0]->end();
  EXPECT_EQ(memory.use_count(), 1);
  RpcMessage late{PartHead::striped_request, 2, "front"};
  late.body.blocks.push_back({std::shared_ptr<const void>(memory, memory->data()), memory->size()});
  ends_[0]->send(std::move(late));
  EXPECT_EQ(memory.use_count(), 1);
}

TEST_F(Sides, WrongBytesEndThem) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  const Descriptor there([&] { return ends[1]; });
  ASSERT_TRUE(ends_[0]->add(Descriptor([&] { return ends[0]; }), threads_, [&] { lost_[0].open(); }));
  const std::string bytes(40, 'x');
  EXPECT_EQ(::send(there.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 40);
  EXPECT_TRUE(lost_[0].wait());
  const Deadline limit = deadline_after(rpc_limit);
  while (!ends_[0]->why_lost() && !has_passed(limit)) ::poll(nullptr, 0, 1);
  EXPECT_EQ(ends_[0]->why_lost(), "it has sent bytes that are no stripe");
}

TEST_F(Sides, AreNotMoreThanAllowed) {
  std::vector<Descriptor> others;
  for (std::size_t i = 0; i <= SideLinks::most; ++i) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    others.emplace_back([&] { return ends[1]; });
    EXPECT_EQ(ends_[0]->add(Descriptor([&] { return ends[0]; }), threads_, [] {}), i + 3 < SideLinks::most);
  }
}

}  // namespace
}  // namespace dlaunch::test
