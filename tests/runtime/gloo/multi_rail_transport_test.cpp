// One transport made of several, over transports between threads.

#include "runtime/backends/gloo/multi_rail_transport.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/collectives/all_reduce.h"
#include "runtime/collectives/exchange.h"
#include "tests/runtime/collectives/forwarding_transport.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::internal {
namespace {

using test::expect_success;
using test::on_threads;
using test::soon;

class CountingChannel final : public test::ForwardingChannel {
 public:
  CountingChannel(EagerChannel& inner, std::size_t& sent) : ForwardingChannel(inner), sent_(sent) {}

  void send(int peer, std::size_t length) override {
    sent_ += length;
    ForwardingChannel::send(peer, length);
  }

 private:
  std::size_t& sent_;
};

// Counts the messages sent.
class Counting final : public test::ForwardingTransport {
 public:
  Counting(std::unique_ptr<Transport> inner, std::size_t& sent)
      : ForwardingTransport(std::move(inner)),
        sent_(sent),
        eager_channel_(ForwardingTransport::eager_channel(), sent) {}

  std::unique_ptr<Transfer> post_send(int peer, std::uint64_t slot,
                                      std::span<const std::byte> bytes) override {
    sent_ += bytes.size();
    return ForwardingTransport::post_send(peer, slot, bytes);
  }
  EagerChannel& eager_channel() override { return eager_channel_; }

 private:
  std::size_t& sent_;
  CountingChannel eager_channel_;
};

struct Rank {
  MultiRailTransport& transport;
  const std::vector<std::size_t>& sent;  // bytes, by rail
};

std::vector<std::exception_ptr> on_rails(int size, std::size_t rails, const std::function<void(Rank)>& body) {
  std::vector<std::shared_ptr<Mailbox>> mailboxes;
  for (std::size_t i = 0; i < rails; ++i) mailboxes.push_back(std::make_shared<Mailbox>(size));
  return on_threads(size, [&](int rank) {
    std::vector<std::size_t> sent(rails);
    std::vector<MultiRailTransport::Rail> own;
    for (std::size_t i = 0; i < rails; ++i) {
      own.push_back(
          {"eth" + std::to_string(i),
           std::make_unique<Counting>(std::make_unique<ThreadTransport>(mailboxes[i], rank), sent[i])});
    }
    MultiRailTransport transport(std::move(own));
    body({transport, sent});
  });
}

std::vector<std::byte> message(std::size_t size, int seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(i * 31 + (i >> 8) + static_cast<std::size_t>(seed));
  return bytes;
}

TEST(MultiRailTransport, MessagesOfASlotKeepTheirOrderCutOrWhole) {
  expect_success(on_rails(2, 3, [](Rank self) {
    const int peer = 1 - self.transport.rank();
    std::vector<std::vector<std::byte>> out;
    std::vector<std::vector<std::byte>> in;
    std::vector<std::unique_ptr<Transfer>> transfers;
    for (const std::size_t size : {0U, 1U, 65536U, 65537U, 100U, 1000000U, 65600U, 0U, 12345678U}) {
      out.push_back(message(size, static_cast<int>(out.size())));
      in.emplace_back(size);
      transfers.push_back(self.transport.post_send(peer, 7, out.back()));
      transfers.push_back(self.transport.post_recv(peer, 7, in.back()));
    }
    for (const auto& transfer : transfers) transfer->wait(soon());
    EXPECT_EQ(in, out);
  }));
}

TEST(MultiRailTransport, LongMessageUsesAllRailsEqually) {
  expect_success(on_rails(2, 4, [](Rank self) {
    const int peer = 1 - self.transport.rank();
    const auto out = message(4000000, 1);
    std::vector<std::byte> in(out.size());
    const auto receive = self.transport.post_recv(peer, 1, in);
    self.transport.post_send(peer, 1, out)->wait(soon());
    receive->wait(soon());
    EXPECT_EQ(in, out);
    for (const std::size_t bytes : self.sent) {
      EXPECT_GT(bytes, 999000U);
      EXPECT_LT(bytes, 1001000U);
    }
  }));
}

TEST(MultiRailTransport, ShortOperationsTakeTurns) {
  expect_success(on_rails(2, 2, [](Rank self) {
    Workspace workspace;
    for (std::uint64_t sequence = 1; sequence <= 10; ++sequence) {
      Exchange exchange(self.transport, workspace,
                        {.kind = CollectiveKind::all_reduce, .dtype = DType::int32, .count = 1}, sequence,
                        soon());
      std::int32_t one = 1;
      all_reduce(exchange, std::as_writable_bytes(std::span(&one, 1)), DType::int32, {});
      EXPECT_EQ(one, 2);
    }
    // Except for the headers of a rank that has waited for long.
    EXPECT_GT(self.sent[0], (self.sent[0] + self.sent[1]) / 4);
    EXPECT_GT(self.sent[1], (self.sent[0] + self.sent[1]) / 4);
  }));
}

TEST(MultiRailTransport, AnErrorNamesTheInterface) {
  expect_success(on_rails(2, 2, [](Rank self) {
    if (self.transport.rank() == 1) return;
    std::vector<std::byte> in(10);
    const auto never = self.transport.post_recv(1, 3, in);
    try {
      never->wait(deadline_after(std::chrono::milliseconds(10)));
      ADD_FAILURE() << "no error";
    } catch (const DistNetworkError& e) {
      EXPECT_EQ(e.context().peer, 1);
      EXPECT_NE(e.reason().find("(interface 'eth1')"), std::string::npos) << e.what();
    }
  }));
}

TEST(MultiRailTransport, AbortAndDepartureReachEveryRail) {
  expect_success(on_rails(3, 2, [](Rank self) {
    std::vector<std::byte> short_one(10);
    std::vector<std::byte> long_one(1000000);
    if (self.transport.rank() == 1) self.transport.shutdown(soon());
    if (self.transport.rank() == 2) {
      for (const std::uint64_t slot : {0U, 1U}) {
        EXPECT_THROW(self.transport.post_recv(1, slot, short_one)->wait(soon()), DistNetworkError);
      }
      EXPECT_THROW(self.transport.post_recv(1, 2, long_one)->wait(soon()), DistNetworkError);
      self.transport.abort("enough");
    }
    if (self.transport.rank() == 0) {
      for (const std::uint64_t slot : {0U, 1U}) {
        EXPECT_THROW(self.transport.post_recv(2, slot, short_one)->wait(soon()), DistNetworkError);
      }
      EXPECT_THROW(self.transport.check(), DistNetworkError);
    }
  }));
}

// Knows of a lost peer, or does not, and keeps the rank that it was aborted for.
class Blaming final : public test::ForwardingTransport {
 public:
  Blaming(std::unique_ptr<Transport> inner, bool knows, int& blamed)
      : ForwardingTransport(std::move(inner)), knows_(knows), blamed_(blamed) {}

  void check() override {
    if (knows_) throw DistNetworkError("it died", {.peer = 1});
  }
  void abort(const std::string&) noexcept override { blamed_ = -1; }
  void abort_for(int peer, const std::string&) noexcept override { blamed_ = peer; }

 private:
  const bool knows_;
  int& blamed_;
};

TEST(MultiRailTransport, PeerLostOnOneRailIsBlamedOnAllRails) {
  constexpr int untouched = -2;
  for (const bool knows : {true, false}) {
    const auto mailbox = std::make_shared<Mailbox>(2);
    std::vector<int> blamed(2, untouched);
    std::vector<MultiRailTransport::Rail> rails;
    for (std::size_t i = 0; i < blamed.size(); ++i) {
      rails.push_back(
          {"eth" + std::to_string(i), std::make_unique<Blaming>(std::make_unique<ThreadTransport>(mailbox, 0),
                                                                knows && i == 1, blamed[i])});
    }
    MultiRailTransport(std::move(rails)).abort("enough");
    EXPECT_EQ(blamed, std::vector<int>(2, knows ? 1 : -1));
  }
}

}  // namespace
}  // namespace dlaunch::internal
