// Connections whose peers have not proved yet that they belong to the job.

#include "runtime/sockets/pending_connections.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace dlaunch::internal {
namespace {

const Contact self{std::string(process_id_size, 'L'), "10.0.0.1", 4711, std::string(key_size, 'k'), 3, 2};
const ProcessId peer_id(process_id_size, 'c');

// The peer's ends of connections, by token.
class Pending : public testing::Test {
 protected:
  ~Pending() override {
    for (const auto& [token, fd] : peers_) close(fd);
  }

  void add(std::uint64_t token) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    peers_[token] = ends[1];
    all_.add(token, Descriptor([&] { return ends[0]; }));
  }
  void send(std::uint64_t token, const std::string& bytes) {
    ASSERT_EQ(::send(peers_.at(token), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  std::string challenge(std::uint64_t token) {
    std::string bytes(challenge_size, '\0');
    EXPECT_EQ(recv(peers_.at(token), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    return bytes;
  }
  // Whether the peer sees that its connection is closed.
  bool is_closed(std::uint64_t token) {
    char byte = 0;
    return recv(peers_.at(token), &byte, 1, 0) == 0;
  }
  // Whether it is neither accepted nor dropped.
  bool waits(std::uint64_t token) {
    return !all_.authenticate(token, self) && all_.has(token) && !is_closed(token);
  }

  PendingConnections all_;
  std::map<std::uint64_t, int> peers_;
};

TEST_F(Pending, AProofMakesAMember) {
  add(1);
  const ClientHandshake claim(self, peer_id);
  send(1, claim.opening());
  EXPECT_FALSE(all_.authenticate(1, self));
  send(1, *claim.answer_to(challenge(1)) + "later bytes");
  const auto member = all_.authenticate(1, self);
  ASSERT_TRUE(member);
  EXPECT_EQ(member->id, peer_id);
  EXPECT_TRUE(all_.empty());
  char rest[32] = {};
  EXPECT_EQ(recv(member->socket.get(), rest, sizeof rest, 0), 11);  // they stay in the socket
  EXPECT_STREQ(rest, "later bytes");
}

// As a network may cut it.
TEST_F(Pending, AProofMayComeByteByByte) {
  add(1);
  const ClientHandshake claim(self, peer_id);
  for (const char byte : claim.opening()) {
    ASSERT_TRUE(waits(1));
    send(1, std::string(1, byte));
  }
  EXPECT_FALSE(all_.authenticate(1, self));
  const std::string answer = *claim.answer_to(challenge(1));
  for (const char byte : answer) {
    ASSERT_TRUE(waits(1));
    send(1, std::string(1, byte));
  }
  EXPECT_TRUE(all_.authenticate(1, self));
}

TEST_F(Pending, IsDroppedAtTheFirstWrongByte) {
  add(1);
  send(1, "d");
  EXPECT_TRUE(waits(1));
  send(1, "x");
  EXPECT_FALSE(all_.authenticate(1, self));
  EXPECT_FALSE(all_.has(1));
  EXPECT_TRUE(is_closed(1));
}

TEST_F(Pending, IsDroppedWithAWrongAnswerOrAnotherProcessInMind) {
  add(1);
  const ClientHandshake claim(self, peer_id);
  send(1, claim.opening());
  EXPECT_TRUE(!all_.authenticate(1, self) && all_.has(1));
  (void)challenge(1);
  send(1, std::string(answer_size, 'x'));
  EXPECT_FALSE(all_.authenticate(1, self));
  EXPECT_TRUE(is_closed(1));
  add(2);
  Contact other = self;
  other.id[0] = 'x';
  send(2, ClientHandshake(other, peer_id).opening());
  EXPECT_FALSE(all_.authenticate(2, self));
  EXPECT_TRUE(is_closed(2));
}

TEST_F(Pending, IsDroppedWhenThePeerEnds) {
  add(1);
  close(peers_.extract(1).mapped());
  EXPECT_FALSE(all_.authenticate(1, self));
  EXPECT_FALSE(all_.has(1));
  EXPECT_FALSE(all_.authenticate(77, self));  // an event of one that was dropped meanwhile
}

// Only members of the job can send a valid opening: those are dropped last.
TEST_F(Pending, AboveTheLimitTheOldestSilentOneIsDropped) {
  for (std::uint64_t token = 1; token <= PendingConnections::limit; ++token) add(token);
  const ClientHandshake claim(self, peer_id);
  send(1, claim.opening());
  EXPECT_FALSE(all_.authenticate(1, self));
  add(1000);
  EXPECT_TRUE(all_.has(1));
  EXPECT_FALSE(all_.has(2));
  EXPECT_TRUE(is_closed(2));
  add(1001);
  EXPECT_FALSE(all_.has(3));
  EXPECT_TRUE(all_.has(1000));
  send(1, *claim.answer_to(challenge(1)));
  EXPECT_TRUE(all_.authenticate(1, self));
}

TEST_F(Pending, IfAllAreMembersTheOldestIsDropped) {
  for (std::uint64_t token = 1; token <= PendingConnections::limit; ++token) {
    add(token);
    send(token, ClientHandshake(self, peer_id).opening());
    EXPECT_FALSE(all_.authenticate(token, self));
  }
  add(1000);
  EXPECT_FALSE(all_.has(1));
  EXPECT_TRUE(all_.has(2));
  EXPECT_TRUE(all_.has(1000));
}

TEST_F(Pending, NewOnesHaveNotExpired) {
  add(1);
  all_.drop_expired();
  EXPECT_TRUE(all_.has(1));
  all_.drop_all();
  EXPECT_TRUE(all_.empty());
  EXPECT_TRUE(is_closed(1));
}

}  // namespace
}  // namespace dlaunch::internal
