// The headers that ranks exchange when one of them waits: a call that does not match is found, and needless
// headers do no harm.
#include "runtime/collectives/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/base/errors.h"
#include "tests/runtime/collectives/forwarding_transport.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::internal {
namespace {

using test::expect_success;
using test::on_ranks;
using test::soon;

constexpr std::size_t long_message = Exchange::eager_limit + 1;

// Counts events.
class Count {
 public:
  void add() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  void await(int wanted) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, soon(), [&] { return count_ >= wanted; }))
      throw DistError("it did not happen");
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;  // protected by mutex_
};

// Headers that were sent alone, by receiver.
using NotificationCounts = std::array<Count, 3>;

class NotifyingChannel final : public test::ForwardingChannel {
 public:
  NotifyingChannel(EagerChannel& inner, NotificationCounts& told) : ForwardingChannel(inner), told_(told) {}
  void send(int peer, std::size_t length) override {
    ForwardingChannel::send(peer, length);
    if (length == sizeof(MessageHeader)) told_[static_cast<std::size_t>(peer)].add();
  }

 private:
  NotificationCounts& told_;
};

class NotifyingTransport final : public test::ForwardingTransport {
 public:
  NotifyingTransport(std::unique_ptr<Transport> inner, NotificationCounts& told)
      : ForwardingTransport(std::move(inner)), eager_channel_(ForwardingTransport::eager_channel(), told) {}
  EagerChannel& eager_channel() override { return eager_channel_; }

 private:
  NotifyingChannel eager_channel_;
};

// A rank that makes calls one after another; `before`: the number before the first.
class Caller {
 public:
  explicit Caller(std::unique_ptr<Transport> transport, std::uint64_t before = 0)
      : transport_(std::move(transport)), number_(before) {}

  void fingerprint(const std::function<void(Exchange&)>& body,
                   const CollectiveFingerprint& fingerprint = {}) {
    Exchange exchange(*transport_, workspace_, fingerprint, ++number_, soon());
    try {
      body(exchange);
    } catch (const DistError& e) {
      transport_->abort(e.what());
      throw;
    }
  }
  void skip() { ++number_; }

 private:
  const std::unique_ptr<Transport> transport_;
  Workspace workspace_;
  std::uint64_t number_;
};

std::vector<std::byte> message(std::size_t length, int number) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i)
    bytes[i] = static_cast<std::byte>(i * 5 + static_cast<unsigned>(number));
  return bytes;
}

void send(Exchange& exchange, int peer, std::size_t length, int number) {
  const std::vector<std::byte> bytes = message(length, number);
  exchange.send(peer, bytes).wait();
}

void expect(Exchange& exchange, int peer, std::size_t length, int number) {
  std::vector<std::byte> bytes(length);
  exchange.receive(peer, bytes).wait_in_place();
  EXPECT_EQ(bytes, message(length, number)) << "message " << number;
}

// Rank 2 is late in every call, so rank 0 announces its messages to both others; rank 1 has its message by
// then.
void expect_late_announcements_are_dropped(std::size_t next, std::uint64_t before) {
  constexpr int calls = 2 * EagerChannel::max_unreceived;
  NotificationCounts told;
  Count received;  // calls of rank 1
  expect_success(on_ranks(3, [&](std::unique_ptr<Transport> transport) {
    const int rank = transport->rank();
    Caller caller(std::make_unique<NotifyingTransport>(std::move(transport), told), before);
    for (int number = 0; number < calls; ++number) {
      caller.fingerprint([&](Exchange& exchange) {
        const std::vector<std::byte> bytes = message(long_message, number);
        if (rank == 0) {
          Exchange::Send first = exchange.send(1, bytes);
          Exchange::Send second = exchange.send(2, bytes);
          received.await(number + 1);
          second.wait();
          first.wait();
        } else {
          if (rank == 2) told[1].await(number + 1);
          expect(exchange, 0, long_message, number);
          if (rank == 1) received.add();
        }
      });
      if (rank == 2) {
        caller.skip();
        continue;
      }
      caller.fingerprint([&](Exchange& exchange) {
        if (rank == 0) send(exchange, 1, next, number);
        if (rank == 1) expect(exchange, 0, next, number);
      });
    }
  }));
}

TEST(Exchange, DropsAnnouncementsThatComeTooLate) {
  for (const std::size_t next : {long_message, Exchange::eager_limit, std::size_t{4}}) {
    expect_late_announcements_are_dropped(next, 0);
  }
}

TEST(Exchange, DropsThemWhenTheNumbersBeginAgain) {
  for (const std::size_t next : {long_message, Exchange::eager_limit, std::size_t{4}}) {
    expect_late_announcements_are_dropped(next, std::uint64_t{0} - EagerChannel::max_unreceived);
  }
}

// Rank 0 waits for rank 1 so often that its headers fill their eager channel.
TEST(Exchange, DropsStaleHeadersThatFillAChannel) {
  NotificationCounts told;
  expect_success(on_ranks(2, [&](std::unique_ptr<Transport> transport) {
    const int rank = transport->rank();
    Caller caller(std::make_unique<NotifyingTransport>(std::move(transport), told));
    for (int number = 0; number < EagerChannel::max_unreceived; ++number) {
      caller.fingerprint([&](Exchange& exchange) {
        if (rank == 1) told[1].await(number + 1);
        if (rank == 1) send(exchange, 0, long_message, number);
        if (rank == 0) expect(exchange, 1, long_message, number);
      });
    }
    // Both send first: each needs room.
    for (int number = 0; number < 2 * EagerChannel::max_unreceived; ++number) {
      caller.fingerprint([&](Exchange& exchange) {
        send(exchange, 1 - rank, 4, number);
        expect(exchange, 1 - rank, 4, number);
      });
    }
  }));
}

std::vector<std::string> errors_of(int size, const std::function<void(Caller&, int)>& body) {
  std::vector<std::string> texts;
  const auto errors = on_ranks(size, [&](std::unique_ptr<Transport> transport) {
    const int rank = transport->rank();
    Caller caller(std::move(transport));
    body(caller, rank);
  });
  for (const std::exception_ptr& error : errors) texts.push_back(error ? message_of(error) : "no error");
  return texts;
}

void expect_in_all(const std::vector<std::string>& texts, const std::string& wanted) {
  for (const std::string& text : texts) EXPECT_NE(text.find(wanted), std::string::npos) << text;
}

// No message under way could show the difference.
TEST(Exchange, FindsRanksThatWaitForEachOtherInDifferentCalls) {
  for (const std::size_t length : {std::size_t{4}, Exchange::eager_limit, long_message}) {
    expect_in_all(errors_of(3,
                            [&](Caller& caller, int rank) {
                              const CollectiveKind kind =
                                  rank == 0 ? CollectiveKind::gather : CollectiveKind::broadcast;
                              caller.fingerprint(
                                  [&](Exchange& exchange) { expect(exchange, (rank + 1) % 3, length, 0); },
                                  {.kind = kind, .root = 0, .count = length});
                            }),
                  "the ranks call different operations");
  }
}

TEST(Exchange, FindsRanksThatSendToEachOtherInDifferentCalls) {
  expect_in_all(errors_of(2,
                          [&](Caller& caller, int rank) {
                            caller.fingerprint(
                                [&](Exchange& exchange) { send(exchange, 1 - rank, long_message, 0); },
                                {.kind = CollectiveKind::broadcast, .root = rank, .count = long_message});
                          }),
                "the ranks call different operations");
}

TEST(Exchange, FindsOtherLengthsOfOneCall) {
  for (const std::size_t length : {std::size_t{4}, Exchange::eager_limit, long_message + 1}) {
    const auto texts = errors_of(2, [&](Caller& caller, int rank) {
      caller.fingerprint(
          [&](Exchange& exchange) {
            if (rank == 0) send(exchange, 1, long_message, 0);
            if (rank == 1) expect(exchange, 0, length, 0);
          },
          {.kind = CollectiveKind::all_to_all});
    });
    expect_in_all(texts, "rank 0 sends " + std::to_string(long_message) +
                             " elements to this rank, which expects " + std::to_string(length));
  }
}

// The messages of a rank that is further may still be coming, but not for ever.
TEST(Exchange, FindsARankThatIsFurther) {
  for (const std::size_t length : {std::size_t{4}, long_message}) {
    const auto texts = errors_of(2, [&](Caller& caller, int rank) {
      if (rank == 0) caller.skip();
      caller.fingerprint([&](Exchange& exchange) {
        if (rank == 0) send(exchange, 1, length, 0);
        if (rank == 0) expect(exchange, 1, 4, 0);
        if (rank == 1) expect(exchange, 0, length, 0);
      });
    });
    expect_in_all(texts, "the ranks are not at the same call");
  }
}

}  // namespace
}  // namespace dlaunch::internal
