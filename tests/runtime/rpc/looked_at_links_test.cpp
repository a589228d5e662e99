// Looking at connections: for how many, for how long, and that what comes afterwards is reported.

#include "runtime/rpc/looked_at_links.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <set>

namespace dlaunch::internal {
namespace {

constexpr std::size_t pairs = LookedAtLinks::most_sockets + 2;

class LookedAt : public testing::Test {
 protected:
  LookedAt() : poll_([] { return epoll_create1(EPOLL_CLOEXEC); }) {
    for (std::uint64_t i = 0; i < pairs; ++i) {
      int ends[2];
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
      links_[i] = std::make_shared<Link>(Descriptor([&] { return ends[0]; }), poll_.get(), i);
      others_[i] = std::make_shared<Link>(Descriptor([&] { return ends[1]; }), poll_.get(), i);
      links_[i]->watch();
      all_.add(links_[i]);
    }
  }

  void look(bool needed, bool comes_back) {
    const auto is_needed = [&] { return needed; };
    const auto will_come_back = [&] { return comes_back; };
    const auto attend = [this](const std::shared_ptr<Link>& link) { read(link); };
    all_.look(is_needed, will_come_back, attend);
  }
  void read(const std::shared_ptr<Link>& link) {
    const auto on_messages = [this](std::vector<RpcMessage>& messages) { arrived_ += messages.size(); };
    const auto on_end = [](const std::string&) {};
    link->read(false, {on_messages, on_end});
  }
  void send_on_all() const {
    for (const auto& other : others_) other->send({PartHead::request, 1, "one"});
  }
  // Of the links that the epoll reports now.
  [[nodiscard]] std::set<std::uint64_t> reported() const {
    std::array<epoll_event, pairs> events;
    const int count = epoll_wait(poll_.get(), events.data(), pairs, 0);
    std::set<std::uint64_t> tokens;
    for (int i = 0; i < count; ++i) {
      const std::uint64_t token = events[static_cast<std::size_t>(i)].data.u64;  // it is packed: no reference
      tokens.insert(token);
    }
    return tokens;
  }

  const Descriptor poll_;
  std::array<std::shared_ptr<Link>, pairs> links_;
  std::array<std::shared_ptr<Link>, pairs> others_;
  LookedAtLinks all_;
  std::size_t arrived_ = 0;
};

TEST_F(LookedAt, OnlySoManySockets) {
  look(true, true);
  send_on_all();
  EXPECT_EQ(reported(), (std::set<std::uint64_t>{pairs - 2, pairs - 1}));
}

TEST_F(LookedAt, WhatHasComeIsReadAndWhatComesLaterIsReported) {
  send_on_all();
  look(false, false);
  EXPECT_EQ(arrived_, LookedAtLinks::most_sockets);
  EXPECT_EQ(reported().size(), 2U);
  send_on_all();
  EXPECT_EQ(reported().size(), pairs);
}

TEST_F(LookedAt, AThreadThatDoesNotComeBackIsReplaced) {
  look(true, true);
  send_on_all();
  EXPECT_EQ(reported().size(), 2U);
  const auto attend = [this](const std::shared_ptr<Link>& link) { read(link); };
  EXPECT_TRUE(all_.relieve(attend));  // the thread may still come
  EXPECT_EQ(reported().size(), 0U);
  all_.relieve(attend);
  EXPECT_EQ(reported().size(), LookedAtLinks::most_sockets);
}

// It returns: an end is left to the epoll.
TEST_F(LookedAt, AnEndIsNothingToLookFor) {
  for (const auto& other : others_) other->end();
  look(false, false);
  EXPECT_EQ(arrived_, 0U);
  EXPECT_EQ(reported().size(), pairs);
}

}  // namespace
}  // namespace dlaunch::internal
