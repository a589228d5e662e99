// One connection: what is sent arrives, also if the other side reads slowly, and its end is found.

#include "runtime/rpc/link.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "runtime/base/deadline.h"

namespace dlaunch::internal {
namespace {

// Over a socket, or, with the parameter, through memory.
class Links : public testing::TestWithParam<bool> {
 protected:
  Links() : poll_([] { return epoll_create1(EPOLL_CLOEXEC); }) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    for (std::uint64_t i = 0; i < 2; ++i) {
      links_[i] = std::make_unique<Link>(Descriptor([&] { return ends[i]; }), poll_.get(), i);
    }
    if (!GetParam()) return;
    std::string why;
    const int file = ByteRings::make_file(why);
    const int events[2] = {eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    const auto use = [&](std::size_t i, ByteRings::Side side) {
      links_[i]->use(std::unique_ptr<SharedRings>(
          new SharedRings{ByteRings::map(file, side, why), Descriptor([&] { return dup(events[i]); }),
                          Descriptor([&] { return dup(events[1 - i]); })}));
    };
    use(0, ByteRings::Side::maker);
    use(1, ByteRings::Side::receiver);
    for (const int fd : {file, events[0], events[1]}) close(fd);
    EXPECT_EQ(why, "");
  }

  // Handles events until `number` messages have arrived, or an end.
  void run_until(std::size_t number) {
    while (arrived_.size() < number && ends_.empty()) {
      epoll_event event{};
      ASSERT_EQ(epoll_wait(poll_.get(), &event, 1, 30000), 1);
      Link& link = *links_[event.data.u64];
      link.on_writable();
      read(link, (event.events & (EPOLLRDHUP | EPOLLHUP)) != 0);
      if (link.shares_memory() && link.stop_looking()) read(link, false);
    }
  }
  void read(Link& link, bool hung_up) {
    const auto on_messages = [&](std::vector<RpcMessage>& messages) {
      for (RpcMessage& message : messages) arrived_.push_back(std::move(message));
    };
    const auto on_end = [&](const std::string& why) { ends_.push_back(why); };
    link.read(hung_up, {on_messages, on_end});
  }

  const Descriptor poll_;
  std::unique_ptr<Link> links_[2];
  std::vector<RpcMessage> arrived_;
  std::vector<std::string> ends_;
};

INSTANTIATE_TEST_SUITE_P(Ways, Links, testing::Bool(),
                         [](const auto& in_memory) { return in_memory.param ? "Memory" : "Socket"; });

TEST_P(Links, MessagesArriveInBothDirections) {
  links_[0]->send({PartHead::request, 1, "before"});
  links_[0]->watch();
  links_[1]->watch();
  links_[0]->send({PartHead::request, 2, "after"});
  links_[1]->send({PartHead::result, 1, "answer"});
  run_until(3);
  EXPECT_EQ(arrived_.size(), 3U);
}

TEST_P(Links, WhatTheKernelDoesNotTakeFollows) {
  const std::string body(3'000'000, 'x');
  links_[0]->send({PartHead::request, 1, body});  // before there is an epoll for it
  links_[0]->send({PartHead::request, 2, body});
  EXPECT_TRUE(links_[0]->untouched().contains(2));
  links_[0]->watch();
  links_[1]->watch();
  run_until(2);
  ASSERT_EQ(arrived_.size(), 2U);
  EXPECT_TRUE(arrived_[0].body.front == body && arrived_[1].body.front == body);
  EXPECT_TRUE(links_[0]->untouched().empty());
}

// Also those of which only a part has found room.
TEST_P(Links, ManyShortMessagesArriveInOrder) {
  constexpr std::uint64_t count = 100'000;
  links_[0]->watch();
  links_[1]->watch();
  for (std::uint64_t number = 1; number <= count; ++number)
    links_[0]->send({PartHead::request, number, std::string(number % 50, 'x')});
  run_until(count);
  ASSERT_EQ(arrived_.size(), count);
  for (std::uint64_t i = 0; i < count; ++i) {
    ASSERT_EQ(arrived_[i].number, i + 1);
    ASSERT_EQ(arrived_[i].body.front.size(), (i + 1) % 50);
  }
}

TEST_P(Links, WhatIsHeldFollows) {
  links_[1]->watch();
  links_[0]->hold();
  EXPECT_EQ(links_[0]->is_held(), !links_[0]->shares_memory());
  links_[0]->send({PartHead::result, 1, "one"});
  links_[0]->send({PartHead::result, 2, "two"});
  EXPECT_EQ(links_[0]->untouched().size(), links_[0]->is_held() ? 2U : 0U);
  links_[0]->release();
  EXPECT_FALSE(links_[0]->is_held());
  EXPECT_TRUE(links_[0]->untouched().empty());
  run_until(2);
  links_[0]->hold();
  for (std::uint64_t number = 3; number <= 100; ++number)
    links_[0]->send({PartHead::result, number, "one of many"});
  EXPECT_LT(links_[0]->untouched().size(), 40U);  // not all wait for the last one
  links_[0]->release();
  run_until(100);
  for (std::size_t i = 0; i < arrived_.size(); ++i) EXPECT_EQ(arrived_[i].number, i + 1);
}

TEST_P(Links, TheEndIsFoundOnceAndAfterTheLastMessage) {
  links_[1]->watch();
  links_[0]->send({PartHead::goodbye, 0, ""});
  links_[0] = nullptr;
  run_until(2);
  EXPECT_EQ(arrived_.size(), 1U);
  EXPECT_EQ(ends_, std::vector<std::string>{"the connection was closed"});
  read(*links_[1], true);
  EXPECT_EQ(ends_.size(), 1U);
}

TEST_P(Links, WrongBytesEndIt) {
  links_[1]->watch();
  links_[0]->send({static_cast<PartHead::Kind>(99), 1, "x"});
  run_until(1);
  EXPECT_EQ(ends_, std::vector<std::string>{"it has sent bytes that are no message"});
}

TEST_P(Links, AThreadReadsUntilItIsDone) {
  for (const auto& link : links_) link->watch();
  const auto on_messages = [&](std::vector<RpcMessage>& messages) {
    for (RpcMessage& message : messages) arrived_.push_back(std::move(message));
  };
  const auto on_end = [&](const std::string& why) { ends_.push_back(why); };
  const auto on_drained = [] {};
  const auto has_two = [&] { return arrived_.size() == 2; };
  const Link::Handler handler{on_messages, on_end, on_drained};
  for (const bool may_look : {true, false}) {
    arrived_.clear();
    std::thread other([&] {
      links_[1]->send({PartHead::result, 1, "one"});
      links_[1]->send({PartHead::result, 2, "two"});
    });
    links_[0]->drive(handler, {has_two, deadline_after(std::chrono::seconds(30)), may_look});
    other.join();
    EXPECT_EQ(arrived_.size(), 2U);
  }
  const auto never = [] { return false; };
  links_[0]->drive(handler, {never, deadline_after(std::chrono::milliseconds(1))});  // until the deadline
  links_[1]->end();
  while (ends_.empty()) {
    std::thread polling([&] {  // as the epoll's thread does
      epoll_event event{};
      while (epoll_wait(poll_.get(), &event, 1, 30000) == 1 && event.data.u64 != 0) {
      }
      links_[0]->read(true, handler);
    });
    links_[0]->drive(handler, {never, deadline_after(std::chrono::seconds(30))});
    polling.join();
  }
  EXPECT_EQ(ends_, std::vector<std::string>{"the connection was closed"});
}

TEST_P(Links, TheEpollReportsNothingOfOneThatIsLookedAt) {
  links_[1]->watch();
  links_[1]->look();
  EXPECT_FALSE(links_[1]->has_something());
  links_[0]->send({PartHead::request, 1, "one"});
  EXPECT_TRUE(links_[1]->has_something());
  epoll_event event{};
  EXPECT_EQ(epoll_wait(poll_.get(), &event, 1, 0), 0);
  if (links_[1]->stop_looking()) read(*links_[1], false);
  run_until(1);
  EXPECT_EQ(arrived_.size(), 1U);
}

TEST_P(Links, FlushWritesWhatFits) {
  links_[0]->send({PartHead::request, 1, std::string(3'000'000, 'x')});
  links_[0]->flush(deadline_after(std::chrono::milliseconds(5)));  // nobody reads
  links_[0]->end();
  links_[0]->send({PartHead::request, 2, "lost"});
  links_[0]->flush(deadline_after(std::chrono::seconds(30)));
  EXPECT_TRUE(links_[0]->untouched().contains(2));
}

}  // namespace
}  // namespace dlaunch::internal
