// The transport over TCP by itself: ranks as threads of one process, each with an endpoint of its own,
// connected through the loopback interface.

#include "runtime/backends/gloo/tcp_transport.h"

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

#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/rendezvous/bootstrap.h"
#include "store/client/hash_store.h"
#include "tests/runtime/collectives/thread_transport.h"
#include "tests/runtime/gloo/tcp_ranks.h"
#include "tests/runtime/point_to_point/eager_channel_cases.h"

namespace dlaunch::internal {
namespace {

using test::connected;
using test::expect_success;
using test::network_error_of;
using test::on_threads;
using test::soon;

// Notifies other threads of an event.
class Occasion {
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

std::vector<std::byte> numbered_bytes(std::size_t size, int seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(seed));
  return bytes;
}

// Rank 0's attempt to connect with a rank 1 that has published `contact`.
std::string beside(const std::string& contact, Deadline deadline = soon(),
                   const std::function<void()>& check = {}) {
  const auto store = std::make_shared<HashStore>();
  const auto keys = backend_store(store);
  keys->set("contact/1", contact);
  return network_error_of([&] {
    TcpTransport({*keys, 0, 2, "test", std::chrono::seconds(60), deadline, "127.0.0.1", check},
                 std::make_shared<Endpoint>("127.0.0.1"));
  });
}

// A rank that should connect, and does not: the lowest id connects.
std::string contact_of_silent_rank() {
  return to_text({std::string(process_id_size, '\0'), "127.0.0.1", 1, std::string(key_size, 'k'), 1, 2});
}

TEST(TcpTransport, ARankThatDoesNotConnectIsWaitedForUntilTheDeadline) {
  EXPECT_EQ(beside(contact_of_silent_rank(), deadline_after(std::chrono::milliseconds(100))),
            "peer 1: no connection was made before the deadline");
}

TEST(TcpTransport, ARankThatIsLostWhileAllConnectIsNotWaitedFor) {
  int asked = 0;
  const auto check = [&asked] {
    if (++asked > 1) throw DistNetworkError("it is known to be lost", {.peer = 1});
  };
  EXPECT_EQ(beside(contact_of_silent_rank(), soon(), check), "peer 1: it is known to be lost");
}

// A dead rank: no process listens at its address.
TEST(TcpTransport, ARankThatCannotBeReachedIsNamed) {
  Contact contact = Endpoint("127.0.0.1").contact();
  contact.id = std::string(process_id_size, '\xff');
  contact.ranks = 2;
  const std::string error = beside(to_text(contact));
  EXPECT_TRUE(error.starts_with("peer 1: cannot connect with it: 127.0.0.1:")) << error;
  EXPECT_TRUE(error.ends_with(": Connection refused")) << error;
}

TEST(TcpTransport, ARankWithAnotherNumberOfRanksIsNamed) {
  EXPECT_EQ(
      beside(to_text({std::string(process_id_size, 'i'), "127.0.0.1", 1, std::string(key_size, 'k'), 1, 3})),
      "peer 1: its group has another number of ranks than this rank's 2");
}

TEST(TcpTransport, ARankOfAnotherVersionIsNamed) {
  EXPECT_EQ(beside("somewhere"), "peer 1: it runs another version of libdlaunch");
}

// If one rank cannot join a group, the others do not wait for it.
TEST(TcpTransport, FailedConnectIsReportedToConnectedPeers) {
  const auto store = std::make_shared<HashStore>();
  Contact dead = Endpoint("127.0.0.1").contact();
  dead.id = std::string(process_id_size, '\xff');
  dead.ranks = 3;
  backend_store(store)->set("contact/2", to_text(dead));
  const auto errors = on_threads(2, [&](int rank) {
    const auto keys = backend_store(store);
    TcpTransport transport({*keys, rank, 3, "test", std::chrono::seconds(60), soon(), "127.0.0.1", {}},
                           std::make_shared<Endpoint>("127.0.0.1"));
  });
  for (const std::exception_ptr& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(peer_of(error), 2) << message_of(error);
  }
}

TEST(TcpTransport, MessagesOfASlotKeepTheirOrder) {
  expect_success(connected(2, [](TcpTransport& transport) {
    const int peer = 1 - transport.rank();
    std::vector<std::vector<std::byte>> out;
    std::vector<std::vector<std::byte>> in;
    std::vector<std::unique_ptr<Transfer>> transfers;
    for (int i = 0; i < 20; ++i) {
      out.push_back(numbered_bytes(i % 3 == 0 ? 100000 : 10, i));
      in.emplace_back(out.back().size());
      transfers.push_back(transport.post_send(peer, 7, out.back()));
      transfers.push_back(transport.post_recv(peer, 7, in.back()));
    }
    for (const auto& transfer : transfers) transfer->wait(soon());
    EXPECT_EQ(in, out);
    transport.shutdown(soon());
  }));
}

TEST(TcpTransport, AReceiveMayBeLongerThanItsMessage) {
  expect_success(connected(2, [](TcpTransport& transport) {
    const int peer = 1 - transport.rank();
    const auto out = numbered_bytes(10, 1);
    auto in = numbered_bytes(20, 2);
    const auto before = in;
    const auto receive = transport.post_recv(peer, 1, in);
    transport.post_send(peer, 1, out)->wait(soon());
    receive->wait(soon());
    EXPECT_TRUE(std::equal(out.begin(), out.end(), in.begin()));
    EXPECT_TRUE(std::equal(in.begin() + 10, in.end(), before.begin() + 10));
    transport.shutdown(soon());
  }));
}

TEST(TcpTransport, ARankSendsToItself) {
  expect_success(connected(2, [](TcpTransport& transport) {
    const auto out = numbered_bytes(1000, transport.rank());
    std::vector<std::byte> in(1000);
    const auto receive = transport.post_recv(transport.rank(), 3, in);
    transport.post_send(transport.rank(), 3, out)->wait(soon());
    receive->wait(soon());
    EXPECT_EQ(in, out);
    transport.shutdown(soon());
  }));
}

TEST(TcpTransport, WorldOfOneNeedsNoPeer) {
  expect_success(connected(1, [](TcpTransport& transport) { transport.shutdown(soon()); }));
}

TEST(TcpTransport, ADeadlineEndsAWaitAndLeavesTheOthersAlone) {
  Occasion tried;
  expect_success(connected(3, [&](TcpTransport& transport) {
    std::vector<std::byte> in(4);
    if (transport.rank() == 0) {
      const auto never = transport.post_recv(1, 1, in);
      const std::string error =
          network_error_of([&] { never->wait(deadline_after(std::chrono::milliseconds(30))); });
      EXPECT_EQ(error, "peer 1: it did not send a message before the deadline");
      tried.happen();
    }
    tried.wait();
    // The connections have survived.
    const int peer = (transport.rank() + 1) % 3;
    const auto receive = transport.post_recv((transport.rank() + 2) % 3, 2, in);
    transport.post_send(peer, 2, numbered_bytes(4, 1))->wait(soon());
    receive->wait(soon());
    EXPECT_EQ(in, numbered_bytes(4, 1));
    transport.shutdown(soon());
  }));
}

TEST(TcpTransport, AWaitMayEndBeforeItsMessageAndBeRepeated) {
  Occasion tried;
  expect_success(connected(2, [&](TcpTransport& transport) {
    if (transport.rank() == 1) {
      tried.wait();
      transport.post_send(0, 1, numbered_bytes(4, 1))->wait(soon());
    } else {
      std::vector<std::byte> in(4);
      const auto receive = transport.post_recv(1, 1, in);
      EXPECT_FALSE(receive->wait_until(deadline_after(std::chrono::milliseconds(1))));
      EXPECT_FALSE(receive->wait_until(deadline_after(std::chrono::milliseconds(1))));
      tried.happen();
      EXPECT_TRUE(receive->wait_until(soon()));
      EXPECT_EQ(in, numbered_bytes(4, 1));
      EXPECT_EQ(network_error_of([&] { transport.post_recv(1, 2, in)->wait_until(soon()); }),
                "peer 1: it has left the group");
    }
    transport.shutdown(soon());
  }));
}

TEST(TcpTransport, AbortFromAnotherThreadEndsTheWaits) {
  std::latch all_wait(3);
  expect_success(connected(3, [&all_wait](TcpTransport& transport) {
    std::vector<std::byte> in(4);
    const auto never = transport.post_recv((transport.rank() + 1) % 3, 1, in);
    all_wait.arrive_and_wait();
    if (transport.rank() == 0) {
      std::thread aborter([&] { transport.abort("the disk is full"); });
      EXPECT_EQ(network_error_of([&] { never->wait(soon()); }), "the disk is full");
      aborter.join();
      EXPECT_EQ(network_error_of([&] { transport.post_recv(1, 2, in); }), "the disk is full");
    } else {
      // Rank 1 does not wait for rank 0, but still gets the reason: from rank 0 or through rank 2.
      const std::string error = network_error_of([&] { never->wait(soon()); });
      EXPECT_NE(error.find("it gave up: the disk is full"), std::string::npos) << error;
      transport.abort("another reason comes too late");
      EXPECT_EQ(network_error_of([&] { transport.post_recv(0, 2, in); }), error);
    }
  }));
}

TEST(TcpTransport, LeavingFailsOnlyRanksThatNeedThePeer) {
  Occasion left;
  expect_success(connected(3, [&](TcpTransport& transport) {
    if (transport.rank() == 2) {
      transport.shutdown(soon());
      left.happen();
      return;
    }
    std::vector<std::byte> in(4);
    const int peer = 1 - transport.rank();
    const auto receive = transport.post_recv(peer, 1, in);
    left.wait();
    transport.post_send(peer, 1, numbered_bytes(4, 1))->wait(soon());
    receive->wait(soon());
    EXPECT_EQ(network_error_of([&] { transport.post_recv(2, 1, in)->wait(soon()); }),
              "peer 2: it has left the group");
    transport.shutdown(soon());
  }));
}

// A message arrives although the sender leaves at once and the receiver is not in any call.
TEST(TcpTransport, ShutdownLosesNothing) {
  for (int round = 0; round < 20; ++round) {
    Occasion left;
    expect_success(connected(2, [&](TcpTransport& transport) {
      const auto sent = numbered_bytes(300000, round);
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

}  // namespace
}  // namespace dlaunch::internal
