// Messages between the ranks of one process. The eager channel is used through ThreadTransport, as the ranks
// use it.

#include "runtime/backend/mailbox.h"

#include <gtest/gtest.h>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "tests/runtime/api/error_strings.h"
#include "tests/runtime/collectives/thread_transport.h"
#include "tests/runtime/point_to_point/eager_channel_cases.h"

namespace dlaunch::internal {
namespace {

using test::error_of;
using test::on_ranks;
using test::on_threads;
using test::soon;

std::vector<std::exception_ptr> on_mailbox(int size, const std::function<void(Transport&)>& body) {
  return on_ranks(size, [&](std::unique_ptr<Transport> transport) { body(*transport); });
}

TEST(MailboxEagerChannel, KeepsTheOrder) { test::channels_keep_the_order(on_mailbox); }

TEST(MailboxEagerChannel, HoldsASenderBack) { test::channels_hold_a_sender_back(on_mailbox); }

TEST(MailboxEagerChannel, EndsWithTheTransport) { test::channels_end_with_the_transport(on_mailbox); }

TEST(MailboxEagerChannel, KeepsWhatALeaverSent) { test::channels_keep_what_a_leaver_sent(on_mailbox); }

using Bytes = std::vector<std::byte>;

Bytes bytes(std::size_t count, int value) { return Bytes(count, static_cast<std::byte>(value)); }

TEST(Mailbox, ASendAndAReceiveMeetInAnyOrder) {
  Mailbox mailbox(2);
  const Bytes out = bytes(3, 1);
  Bytes first(3);
  Bytes second(3);
  const auto early_receive = mailbox.post_recv(0, 1, 7, first);
  mailbox.post_send(0, 1, 7, out)->wait(soon());
  early_receive->wait(soon());
  EXPECT_EQ(first, out);
  const auto early_send = mailbox.post_send(0, 1, 7, out);
  EXPECT_FALSE(early_send->wait_until(Deadline::min()));
  mailbox.post_recv(0, 1, 7, second)->wait(soon());
  early_send->wait(soon());
  EXPECT_EQ(second, out);
}

TEST(Mailbox, MessagesOfASlotKeepTheirOrderAndSlotsAndRanksAreApart) {
  Mailbox mailbox(3);
  std::vector<Bytes> out;
  for (int i = 0; i < 4; ++i) out.push_back(bytes(1, i));
  const auto a = mailbox.post_send(0, 2, 7, out[0]);
  const auto b = mailbox.post_send(0, 2, 7, out[1]);
  const auto c = mailbox.post_send(0, 2, 8, out[2]);
  const auto d = mailbox.post_send(1, 2, 7, out[3]);
  const auto received = [&mailbox](int from, std::uint64_t slot) {
    Bytes in(1);
    mailbox.post_recv(from, 2, slot, in)->wait(soon());
    return in;
  };
  EXPECT_EQ(received(1, 7), out[3]);
  EXPECT_EQ(received(0, 8), out[2]);
  EXPECT_EQ(received(0, 7), out[0]);
  EXPECT_EQ(received(0, 7), out[1]);
  for (const Transfer* unused : {a.get(), b.get(), c.get(), d.get()}) EXPECT_TRUE(unused);
}

TEST(Mailbox, AReceiveMayBeLongerButNotShorterThanItsMessage) {
  Mailbox mailbox(2);
  Bytes longer = bytes(4, 9);
  const Bytes two = bytes(2, 1);
  const auto sent = mailbox.post_send(0, 1, 1, two);
  mailbox.post_recv(0, 1, 1, longer)->wait(soon());
  EXPECT_EQ(longer, (Bytes{std::byte{1}, std::byte{1}, std::byte{9}, std::byte{9}}));
  Bytes shorter = bytes(1, 9);
  const auto receive = mailbox.post_recv(0, 1, 1, shorter);
  mailbox.post_send(0, 1, 1, two)->wait(soon());
  EXPECT_EQ(error_of([&] { receive->wait(soon()); }),
            "peer 0: a message is longer than the receive's memory");
  EXPECT_EQ(shorter, bytes(1, 9));
}

TEST(Mailbox, ADeadlineEndsAWaitAndNamesThePeer) {
  Mailbox mailbox(2);
  const Bytes out = bytes(1, 1);
  Bytes in(1);
  const auto shortly = [] { return deadline_after(std::chrono::milliseconds(5)); };
  const auto send = mailbox.post_send(0, 1, 1, out);
  const auto receive = mailbox.post_recv(0, 1, 2, in);
  EXPECT_EQ(error_of([&] { send->wait(shortly()); }),
            "peer 1: it did not take a message before the deadline");
  EXPECT_EQ(error_of([&] { receive->wait(shortly()); }),
            "peer 0: it did not send a message before the deadline");
}

// The next one of the slot takes its place, and its memory is not touched.
TEST(Mailbox, AnAbandonedTransferIsWithdrawn) {
  Mailbox mailbox(2);
  const Bytes out = bytes(1, 1);
  Bytes abandoned(1);
  Bytes in(1);
  mailbox.post_recv(0, 1, 1, abandoned).reset();
  const auto receive = mailbox.post_recv(0, 1, 1, in);
  mailbox.post_send(0, 1, 1, out)->wait(soon());
  receive->wait(soon());
  EXPECT_EQ(in, out);
  EXPECT_EQ(abandoned, Bytes(1));
  mailbox.post_send(0, 1, 1, bytes(1, 5)).reset();
  Bytes again(1);
  EXPECT_FALSE(mailbox.post_recv(0, 1, 1, again)->wait_until(Deadline::min()));
}

TEST(Mailbox, AReceiveFromAnyRankTakesOneMessage) {
  Mailbox mailbox(3);
  const Bytes out = bytes(1, 1);
  const Bytes later = bytes(1, 2);
  Bytes in(1);
  const auto waiting = mailbox.post_send(2, 0, 1, out);
  const auto other = mailbox.post_send(1, 0, 2, out);  // of another slot
  auto receive = mailbox.post_recv_any(0, 1, in);
  AnySourceReceive::Arrival arrival = receive->wait(soon());
  EXPECT_EQ(arrival.event, AnySourceReceive::Event::message);
  EXPECT_EQ(arrival.peer, 2);
  EXPECT_EQ(in, out);
  waiting->wait(soon());
  // One that has taken its message takes no other.
  const auto next = mailbox.post_send(1, 0, 1, later);
  EXPECT_FALSE(next->wait_until(Deadline::min()));
  EXPECT_EQ(in, out);
  receive = mailbox.post_recv_any(0, 1, in);
  EXPECT_EQ(receive->wait(soon()).peer, 1);
  EXPECT_EQ(in, later);
}

TEST(Mailbox, AReceiveFromAnyRankIsWokenAndReportsEachLeaverOnce) {
  Mailbox mailbox(3);
  Bytes in(1);
  using Event = AnySourceReceive::Event;
  auto receive = mailbox.post_recv_any(0, 1, in);
  EXPECT_EQ(receive->wait(Deadline::min()).event, Event::nothing);
  std::thread waker([&] { receive->wake(); });
  EXPECT_EQ(receive->wait(Deadline::max()).event, Event::nothing);
  waker.join();
  mailbox.leave(2);
  const AnySourceReceive::Arrival left = receive->wait(soon());
  EXPECT_EQ(left.event, Event::left);
  EXPECT_EQ(left.peer, 2);
  EXPECT_EQ(receive->wait(Deadline::min()).event, Event::nothing);
  // Destroyed before a message comes: the message waits for another receive.
  receive.reset();
  const Bytes out = bytes(1, 1);
  const auto send = mailbox.post_send(1, 0, 1, out);
  EXPECT_FALSE(send->wait_until(Deadline::min()));
}

TEST(Mailbox, WaitsForARankThatLeavesEnd) {
  Mailbox mailbox(3);
  Bytes in(1);
  Bytes from_other(1);
  const Bytes out = bytes(1, 1);
  const auto receive = mailbox.post_recv(1, 0, 1, in);
  const auto other = mailbox.post_recv(2, 0, 1, from_other);
  std::thread leaver([&] { mailbox.leave(1); });
  EXPECT_EQ(error_of([&] { receive->wait(soon()); }), "peer 1: it has left the group");
  leaver.join();
  EXPECT_EQ(error_of([&] { mailbox.post_send(0, 1, 1, out); }), "peer 1: it has left the group");
  EXPECT_EQ(mailbox.departed(), std::vector<int>{1});
  mailbox.check(0);  // a leave is no failure of the group
  mailbox.post_send(2, 0, 1, out)->wait(soon());
  other->wait(soon());
}

TEST(Mailbox, TheFirstAbortEndsAllWaitsWithItsReason) {
  Mailbox mailbox(3);
  Bytes in(1);
  const auto receive = mailbox.post_recv(2, 1, 1, in);
  const auto any = mailbox.post_recv_any(1, 2, in);
  mailbox.abort(0, "the disk is full");
  mailbox.abort(1, "too late");
  const std::string others = "peer 0: rank 0 gave up: the disk is full";
  EXPECT_EQ(error_of([&] { receive->wait(soon()); }), others);
  EXPECT_EQ(error_of([&] { any->wait(soon()); }), others);
  EXPECT_EQ(error_of([&] { mailbox.check(2); }), others);
  EXPECT_EQ(error_of([&] { mailbox.check(0); }), "the disk is full");
  EXPECT_EQ(error_of([&] { mailbox.post_recv(1, 0, 1, in); }), "peer 1: the disk is full");
}

TEST(Mailbox, AnAbortMayBlameARank) {
  Mailbox mailbox(3);
  mailbox.abort(0, "it is missing", 2);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(error_of([&] { mailbox.check(rank); }), "peer 2: it is missing");
  }
}

TEST(Mailbox, TheMissingAreTheStragglersOfAnOperation) {
  Mailbox mailbox(4);
  mailbox.enter(0, 5);
  mailbox.enter(1, 5);
  mailbox.enter(2, 4);
  mailbox.enter(3, 4);
  EXPECT_EQ(mailbox.missing(0, 5), (std::vector<int>{2, 3}));
  EXPECT_EQ(mailbox.missing(0, 4), std::vector<int>{});
  EXPECT_EQ(mailbox.missing(2, 5), std::vector<int>{3});  // not the rank that asks
}

// Several threads post and wait at once; each message arrives once.
TEST(Mailbox, ServesAllRanksAtOnce) {
  constexpr int size = 4;
  constexpr int rounds = 200;
  Mailbox mailbox(size);
  test::expect_success(on_threads(size, [&](int rank) {
    for (int round = 0; round < rounds; ++round) {
      std::vector<Bytes> in(size, Bytes(8));
      std::vector<std::unique_ptr<Transfer>> transfers;
      const Bytes out = bytes(8, rank * 10 + round % 10);
      for (int peer = 0; peer < size; ++peer) {
        transfers.push_back(mailbox.post_send(rank, peer, 1, out));
        transfers.push_back(mailbox.post_recv(peer, rank, 1, in[static_cast<std::size_t>(peer)]));
      }
      for (const auto& transfer : transfers) transfer->wait(soon());
      for (int peer = 0; peer < size; ++peer) {
        ASSERT_EQ(in[static_cast<std::size_t>(peer)], bytes(8, peer * 10 + round % 10));
      }
    }
  }));
}

}  // namespace
}  // namespace dlaunch::internal
