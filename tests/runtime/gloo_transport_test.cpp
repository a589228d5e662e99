// The transport over Gloo by itself: ranks as threads of one process,
// connected through the loopback interface.

#include "runtime/backends/gloo/gloo_transport.h"

#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/bootstrap.h"
#include "runtime/deadline.h"
#include "runtime/errors.h"
#include "store/hash_store.h"
#include "tests/runtime/line_cases.h"
#include "tests/runtime/thread_transport.h"

namespace dlaunch {
namespace {

using test::expect_success;
using test::on_threads;
using test::soon;

// Tells other threads that something has happened.
class Event {
 public:
  void happen() {
    const std::lock_guard lock(mutex_);
    happened_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return happened_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool happened_ = false;  // protected by mutex_
};

std::vector<std::exception_ptr> connected(int size, const std::function<void(GlooTransport&)>& body,
                                          Deadline until = soon()) {
  const auto store = std::make_shared<HashStore>();
  return on_threads(size, [&](int rank) {
    const auto keys = backend_store(store);
    GlooTransport transport({*keys, rank, size, "test", std::chrono::seconds(60), until, "127.0.0.1", {}},
                            "127.0.0.1");
    body(transport);
  });
}

template <class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const DistNetworkError& e) {
    return e.what();
  }
  return "no error";
}

std::vector<std::byte> message(std::size_t size, int seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(seed));
  return bytes;
}

// One that has told where it is, and listens, but that is all: its address is the higher one, so it is to
// connect. What comes of it for rank 0.
std::string beside_a_silent_rank(Deadline deadline, const std::function<void()>& check) {
  const auto store = std::make_shared<HashStore>();
  const auto keys = backend_store(store);
  const auto device = ::gloo::transport::tcp::CreateDevice(::gloo::transport::tcp::attr("127.0.0.2"));
  const auto silent = device->createContext(1, 2);
  const std::vector<char> address = silent->createPair(0)->address().bytes();
  keys->set("addresses/1", std::string(address.begin(), address.end()));
  return error_of([&] {
    GlooTransport({*keys, 0, 2, "test", std::chrono::seconds(60), deadline, "127.0.0.1", check}, "127.0.0.1");
  });
}

TEST(GlooTransport, ARankThatDoesNotConnectIsWaitedForUntilTheDeadline) {
  EXPECT_EQ(beside_a_silent_rank(deadline_after(std::chrono::milliseconds(100)), {}),
            "peer 1: no connection came about before the deadline");
}

TEST(GlooTransport, ARankThatIsLostWhileAllConnectIsNotWaitedFor) {
  int asked = 0;
  const auto check = [&asked] {
    if (++asked > 1) throw DistNetworkError("it is known to be lost", {.peer = 1});
  };
  EXPECT_EQ(beside_a_silent_rank(soon(), check), "peer 1: it is known to be lost");
}

// One that died: nobody listens where it said.
TEST(GlooTransport, ARankThatCannotBeReachedIsNamed) {
  const auto store = std::make_shared<HashStore>();
  const auto keys = backend_store(store);
  std::vector<char> address;
  {
    const auto device = ::gloo::transport::tcp::CreateDevice(::gloo::transport::tcp::attr("127.0.0.1"));
    address = device->createContext(1, 2)->createPair(0)->address().bytes();
  }
  keys->set("addresses/1", std::string(address.begin(), address.end()));
  const std::string error = error_of([&] {
    GlooTransport({*keys, 0, 2, "test", std::chrono::seconds(60), soon(), "127.0.0.2", {}}, "127.0.0.2");
  });
  EXPECT_TRUE(error.starts_with("peer 1: cannot connect with it: ")) << error;
}

TEST(GlooTransport, ARankWithAnotherNumberOfRanksIsNamed) {
  const auto store = std::make_shared<HashStore>();
  const auto keys = backend_store(store);
  keys->set("addresses/1", "for two others");
  EXPECT_EQ(
      error_of([&] {
        GlooTransport({*keys, 0, 2, "test", std::chrono::seconds(60), soon(), "127.0.0.1", {}}, "127.0.0.1");
      }),
      "peer 1: it counts another number of ranks than this one's 2");
}

TEST(GlooTransport, MessagesOfASlotKeepTheirOrder) {
  expect_success(connected(2, [](GlooTransport& transport) {
    const int peer = 1 - transport.rank();
    std::vector<std::vector<std::byte>> out;
    std::vector<std::vector<std::byte>> in;
    std::vector<std::unique_ptr<Transfer>> transfers;
    for (int i = 0; i < 20; ++i) {
      out.push_back(message(i % 3 == 0 ? 100000 : 10, i));
      in.emplace_back(out.back().size());
      transfers.push_back(transport.post_send(peer, 7, out.back()));
      transfers.push_back(transport.post_recv(peer, 7, in.back()));
    }
    for (const auto& transfer : transfers) transfer->wait(soon());
    EXPECT_EQ(in, out);
    transport.shutdown(soon());
  }));
}

TEST(GlooTransport, AReceiveMayBeLongerThanItsMessage) {
  expect_success(connected(2, [](GlooTransport& transport) {
    const int peer = 1 - transport.rank();
    const auto out = message(10, 1);
    auto in = message(20, 2);
    const auto before = in;
    const auto receive = transport.post_recv(peer, 1, in);
    transport.post_send(peer, 1, out)->wait(soon());
    receive->wait(soon());
    EXPECT_TRUE(std::equal(out.begin(), out.end(), in.begin()));
    EXPECT_TRUE(std::equal(in.begin() + 10, in.end(), before.begin() + 10));
    transport.shutdown(soon());
  }));
}

TEST(GlooTransport, ARankSendsToItself) {
  expect_success(connected(2, [](GlooTransport& transport) {
    const auto out = message(1000, transport.rank());
    std::vector<std::byte> in(1000);
    const auto receive = transport.post_recv(transport.rank(), 3, in);
    transport.post_send(transport.rank(), 3, out)->wait(soon());
    receive->wait(soon());
    EXPECT_EQ(in, out);
    transport.shutdown(soon());
  }));
}

TEST(GlooTransport, AWorldOfOneNeedsNobody) {
  expect_success(connected(1, [](GlooTransport& transport) { transport.shutdown(soon()); }));
}

TEST(GlooTransport, ADeadlineEndsAWaitAndLeavesTheOthersAlone) {
  Event tried;
  expect_success(connected(3, [&](GlooTransport& transport) {
    std::vector<std::byte> in(4);
    if (transport.rank() == 0) {
      const auto never = transport.post_recv(1, 1, in);
      const std::string error = error_of([&] { never->wait(deadline_after(std::chrono::milliseconds(30))); });
      EXPECT_EQ(error, "peer 1: it did not send a message before the deadline");
      tried.happen();
    }
    tried.wait();
    // The connections have survived.
    const int peer = (transport.rank() + 1) % 3;
    const auto receive = transport.post_recv((transport.rank() + 2) % 3, 2, in);
    transport.post_send(peer, 2, message(4, 1))->wait(soon());
    receive->wait(soon());
    EXPECT_EQ(in, message(4, 1));
    transport.shutdown(soon());
  }));
}

TEST(GlooTransport, AWaitMayEndBeforeItsMessageAndBeRepeated) {
  Event tried;
  expect_success(connected(2, [&](GlooTransport& transport) {
    if (transport.rank() == 1) {
      tried.wait();
      transport.post_send(0, 1, message(4, 1))->wait(soon());
    } else {
      std::vector<std::byte> in(4);
      const auto receive = transport.post_recv(1, 1, in);
      EXPECT_FALSE(receive->wait_until(deadline_after(std::chrono::milliseconds(1))));
      EXPECT_FALSE(receive->wait_until(deadline_after(std::chrono::milliseconds(1))));
      tried.happen();
      EXPECT_TRUE(receive->wait_until(soon()));
      EXPECT_EQ(in, message(4, 1));
      const auto never = transport.post_recv(1, 2, in);
      EXPECT_EQ(error_of([&] { never->wait_until(soon()); }), "peer 1: it has left the group");
    }
    transport.shutdown(soon());
  }));
}

TEST(GlooTransport, AbortFromAnotherThreadEndsTheWaits) {
  expect_success(connected(3, [](GlooTransport& transport) {
    std::vector<std::byte> in(4);
    const auto never = transport.post_recv((transport.rank() + 1) % 3, 1, in);
    if (transport.rank() == 0) {
      std::thread aborter([&] { transport.abort("the disk is full"); });
      EXPECT_EQ(error_of([&] { never->wait(soon()); }), "the disk is full");
      aborter.join();
      EXPECT_EQ(error_of([&] { transport.post_recv(1, 2, in); }), "the disk is full");
    } else {
      // Rank 1 does not wait for rank 0, and learns of it all the same: from rank 0 or through rank 2.
      const std::string error = error_of([&] { never->wait(soon()); });
      EXPECT_NE(error.find("it gave up: the disk is full"), std::string::npos) << error;
      transport.abort("another reason comes too late");
      EXPECT_EQ(error_of([&] { transport.post_recv(0, 2, in); }), error);
    }
  }));
}

TEST(GlooTransport, LeavingConcernsOnlyThoseWhoWantSomething) {
  Event left;
  expect_success(connected(3, [&](GlooTransport& transport) {
    if (transport.rank() == 2) {
      transport.shutdown(soon());
      left.happen();
      return;
    }
    std::vector<std::byte> in(4);
    const int peer = 1 - transport.rank();
    const auto receive = transport.post_recv(peer, 1, in);
    left.wait();
    transport.post_send(peer, 1, message(4, 1))->wait(soon());
    receive->wait(soon());
    EXPECT_EQ(error_of([&] { transport.post_recv(2, 1, in)->wait(soon()); }),
              "peer 2: it has left the group");
    transport.shutdown(soon());
  }));
}

// What was sent arrives although the sender leaves at once and the receiver is not in any call.
TEST(GlooTransport, ShutdownLosesNothing) {
  for (int round = 0; round < 20; ++round) {
    Event left;
    expect_success(connected(2, [&](GlooTransport& transport) {
      const auto sent = message(300000, round);
      if (transport.rank() == 0) {
        transport.post_send(1, 1, sent)->wait(soon());
        transport.shutdown(soon());
        left.happen();
        return;
      }
      std::vector<std::byte> in(sent.size());
      const auto receive = transport.post_recv(0, 1, in);
      left.wait();
      receive->wait(soon());
      EXPECT_EQ(in, sent);
      transport.shutdown(soon());
    }));
  }
}

std::vector<std::exception_ptr> on_gloo(int size, const std::function<void(Transport&)>& body) {
  return connected(size, body);
}

TEST(GlooLine, KeepsTheOrder) { test::lines_keep_the_order(on_gloo); }
TEST(GlooLine, HoldsASenderBack) { test::lines_hold_a_sender_back(on_gloo); }
TEST(GlooLine, EndsWithTheTransport) { test::lines_end_with_the_transport(on_gloo); }
TEST(GlooLine, KeepsWhatALeaverSent) { test::lines_keep_what_a_leaver_sent(on_gloo); }

// Gloo ends a connection on which a wait for a bound buffer lasts longer than connecting might have.
TEST(GlooLine, WaitsLongerThanGlooWould) {
  std::latch both_waited(2);
  const auto errors = connected(
      2,
      [&both_waited](GlooTransport& transport) {
        Line& line = transport.line();
        const int peer = 1 - transport.rank();
        EXPECT_EQ(line.receive(peer, deadline_after(std::chrono::milliseconds(4500))), nullptr);
        both_waited.arrive_and_wait();
        test::send_in_line(line, transport.rank(), peer, 0);
        test::expect_in_line(line, peer, transport.rank(), 0);
        transport.shutdown(soon());
      },
      deadline_after(std::chrono::seconds(4)));
  expect_success(errors);
}

}  // namespace
}  // namespace dlaunch
