// One process's endpoint: connections without a proof, and several groups on the same connections.

#include "runtime/backends/gloo/endpoint.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/backends/gloo/tcp_transport.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/rendezvous/bootstrap.h"
#include "runtime/sockets/pending_connections.h"
#include "store/client/hash_store.h"
#include "tests/runtime/collectives/thread_transport.h"
#include "tests/runtime/forked_copies.h"
#include "tests/runtime/point_to_point/eager_channel_cases.h"

namespace dlaunch::internal {
namespace {

using test::expect_success;
using test::on_threads;
using test::soon;

std::shared_ptr<Endpoint> endpoint() { return std::make_shared<Endpoint>("127.0.0.1"); }

// One rank's end of a group, whose name is the rendezvous of the ranks.
std::unique_ptr<TcpTransport> join(const std::shared_ptr<HashStore>& store, const std::string& group,
                                   int rank, int size, const std::shared_ptr<Endpoint>& its) {
  class Prefixed final : public BackendStore {
   public:
    Prefixed(std::unique_ptr<BackendStore> store, std::string prefix)
        : store_(std::move(store)), prefix_(std::move(prefix)) {}
    void set(const std::string& key, const std::string& value) override { store_->set(prefix_ + key, value); }
    std::string get(const std::string& key, Deadline deadline) override {
      return store_->get(prefix_ + key, deadline);
    }
    void wait(std::span<const std::string> /*keys*/, Deadline /*deadline*/) override {}

   private:
    const std::unique_ptr<BackendStore> store_;
    const std::string prefix_;
  };
  Prefixed keys(backend_store(store), group + "/");
  return std::make_unique<TcpTransport>(
      BackendContext{keys, rank, size, group, std::chrono::seconds(60), soon(), "127.0.0.1", {}}, its);
}

// --- Connections without a proof
// -----------------------------------------------------------------------------------------------

class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { close(fd_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  [[nodiscard]] bool is_connected() const { return is_connected_; }
  void send(const std::string& bytes) const { (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // Whether the endpoint has closed the connection, or does so in time.
  [[nodiscard]] bool is_dropped() const {
    for (;;) {
      pollfd ready{fd_, POLLIN, 0};
      if (poll(&ready, 1, 30000) != 1) return false;
      char byte = 0;
      if (recv(fd_, &byte, 1, 0) <= 0) return true;
    }
  }
  [[nodiscard]] std::string receive(std::size_t count) const {
    std::string bytes(count, '\0');
    const ssize_t got = recv(fd_, bytes.data(), count, MSG_WAITALL);
    bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return bytes;
  }

 private:
  const int fd_;
  bool is_connected_ = false;
};

TEST(UnauthenticatedConnections, AreDroppedAtTheFirstWrongByte) {
  const Endpoint here("127.0.0.1");
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n"), std::string(8, '\0'), std::string("x")}) {
    const RawClient client(here.contact().port);
    client.send(bytes);
    EXPECT_TRUE(client.is_dropped());
  }
}

TEST(UnauthenticatedConnections, ThatDoNotKnowTheKeyAreDropped) {
  const Endpoint here("127.0.0.1");
  Contact guessed = here.contact();
  guessed.key[0] = static_cast<char>(guessed.key[0] + 1);
  const ClientHandshake claim(guessed, ProcessId(process_id_size, 'C'));
  const RawClient client(here.contact().port);
  client.send(claim.opening());
  const std::string challenge = client.receive(challenge_size);
  ASSERT_EQ(challenge.size(), challenge_size);
  EXPECT_FALSE(claim.answer_to(challenge));
  client.send(std::string(answer_size, 'x'));
  EXPECT_TRUE(client.is_dropped());
}

TEST(UnauthenticatedConnections, OldestEndFirstAboveTheLimit) {
  const Endpoint here("127.0.0.1");
  const RawClient first(here.contact().port);
  std::vector<std::unique_ptr<RawClient>> others;
  for (std::size_t i = 0; i < PendingConnections::limit; ++i)
    others.push_back(std::make_unique<RawClient>(here.contact().port));
  EXPECT_TRUE(first.is_dropped());
}

// A port scanner that connects to every listening socket at once, again and again, while groups form and end.
TEST(UnauthenticatedConnections, DoNotDisturbGroupsThatForm) {
  constexpr int rounds = 20;
  std::atomic<int> port{0};
  std::atomic<bool> over{false};
  std::atomic<int> connected{0};
  std::thread attacker([&] {
    std::vector<std::unique_ptr<RawClient>> held;
    for (int i = 0; !over; ++i) {
      if (port == 0) continue;
      auto client = std::make_unique<RawClient>(static_cast<std::uint16_t>(port));
      if (!client->is_connected()) continue;
      ++connected;
      const std::string words[] = {"", std::string(8, '\1'), std::string(64, '\0'), "dlmesh", ""};
      client->send(words[i % 5]);
      if (i % 5 != 0) held.push_back(std::move(client));
      if (held.size() > 100) held.clear();
    }
  });
  for (int round = 0; round < rounds; ++round) {
    const auto store = std::make_shared<HashStore>();
    const int before = connected;
    expect_success(on_threads(3, [&](int rank) {
      const auto its = endpoint();
      port = its->contact().port;
      while (rank == 0 && connected < before + 10) std::this_thread::yield();
      const auto transport = join(store, "g", rank, 3, its);
      // Connected peers would miss a rank that left before.
      for (const int peer : {(rank + 1) % 3, (rank + 2) % 3}) {
        test::send_eager(transport->eager_channel(), rank, peer, round);
      }
      for (const int peer : {(rank + 1) % 3, (rank + 2) % 3}) {
        test::expect_eager(transport->eager_channel(), peer, rank, round);
      }
      transport->shutdown(soon());
    }));
  }
  over = true;
  attacker.join();
}

// --- Groups on the same connections
// --------------------------------------------------------------------------

std::size_t descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                                std::filesystem::directory_iterator()));
}
std::size_t threads() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                                                std::filesystem::directory_iterator()));
}

using Ends = std::vector<std::unique_ptr<TcpTransport>>;  // by rank

// So many groups of two ranks; each rank is an endpoint.
std::vector<Ends> groups_of_two(
    int count, const std::function<void()>& after_first = [] {}) {
  const auto store = std::make_shared<HashStore>();
  const std::shared_ptr<Endpoint> endpoints[] = {endpoint(), endpoint()};
  std::vector<Ends> groups(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i].resize(2);
    expect_success(on_threads(2, [&](int rank) {
      groups[i][static_cast<std::size_t>(rank)] =
          join(store, std::to_string(i), rank, 2, endpoints[static_cast<std::size_t>(rank)]);
    }));
    if (i == 0) after_first();
  }
  return groups;
}

void leave_all(std::vector<Ends>& groups) {
  for (Ends& group : groups) {
    for (const auto& end : group) end->shutdown(soon());
  }
}

TEST(SharedConnections, CostNoDescriptorsAndNoThreads) {
  std::size_t descriptors_of_one = 0;
  std::size_t threads_of_one = 0;
  std::vector<Ends> groups = groups_of_two(100, [&] {
    descriptors_of_one = descriptors();
    threads_of_one = threads();
  });
  EXPECT_EQ(descriptors(), descriptors_of_one);
  EXPECT_EQ(threads(), threads_of_one);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    test::send_eager(groups[i][0]->eager_channel(), 0, 1, static_cast<int>(i));
  }
  for (std::size_t i = groups.size(); i > 0; --i) {
    test::expect_eager(groups[i - 1][1]->eager_channel(), 0, 1, static_cast<int>(i - 1));
  }
  leave_all(groups);
}

// Messages of two groups to the same slot of the same process do not meet.
TEST(SharedConnections, KeepTheMessagesOfGroupsApart) {
  std::vector<Ends> groups = groups_of_two(2);
  const std::vector<std::byte> out[] = {std::vector<std::byte>(1000000, std::byte{1}),
                                        std::vector<std::byte>(1000000, std::byte{2})};
  std::vector<std::byte> in[] = {std::vector<std::byte>(1000000), std::vector<std::byte>(1000000)};
  std::vector<std::unique_ptr<Transfer>> transfers;
  for (const std::size_t i : {0U, 1U}) transfers.push_back(groups[i][0]->post_send(1, 7, out[i]));
  for (const std::size_t i : {1U, 0U}) transfers.push_back(groups[i][1]->post_recv(0, 7, in[i]));
  for (const auto& transfer : transfers) transfer->wait(soon());
  EXPECT_EQ(in[0], out[0]);
  EXPECT_EQ(in[1], out[1]);
  leave_all(groups);
}

// Memory whose pages are allocated when they are written.
using Pages = std::unique_ptr<std::byte, decltype(&std::free)>;
Pages pages(std::size_t size) { return {static_cast<std::byte*>(std::calloc(size, 1)), &std::free}; }

// Reads memory that a message is being written to: an intended race.
__attribute__((no_sanitize("thread"))) std::byte glance(const std::byte& at) {
  return *static_cast<const volatile std::byte*>(&at);
}

// A group that gives up in the middle of a long message, on either side, harms no other group, and owns its
// memory again at once.
TEST(SharedConnections, SurviveAGroupThatGivesUp) {
  constexpr std::size_t endless = std::size_t{1} << 30U;  // bytes, of which few are sent
  constexpr std::size_t looked_at = std::size_t{4} << 20U;
  for (const int aborting : {0, 1}) {
    std::vector<Ends> groups = groups_of_two(2);
    const Pages out = pages(endless);
    const Pages in = pages(endless);
    *out = std::byte{1};
    auto send = groups[0][0]->post_send(1, 7, {out.get(), endless});
    auto receive = groups[0][1]->post_recv(0, 7, {in.get(), endless});
    while (glance(*in) == std::byte{0}) std::this_thread::yield();
    groups[0][static_cast<std::size_t>(aborting)]->abort("enough");
    Transfer& others = aborting == 0 ? *receive : *send;
    const std::string error = test::network_error_of([&] { others.wait(soon()); });
    EXPECT_NE(error.find("it gave up: enough"), std::string::npos) << error;
    send.reset();
    receive.reset();
    std::fill_n(in.get(), looked_at, std::byte{9});
    // The other group's message follows the rest of the first one's.
    const std::vector<std::byte> later(looked_at, std::byte{2});
    std::vector<std::byte> received(looked_at);
    send = groups[1][0]->post_send(1, 7, later);
    receive = groups[1][1]->post_recv(0, 7, received);
    send->wait(soon());
    receive->wait(soon());
    EXPECT_EQ(received, later);
    EXPECT_EQ(std::count(in.get(), in.get() + looked_at, std::byte{9}),
              static_cast<std::ptrdiff_t>(looked_at));
    groups[1][0]->check();
    groups[1][1]->check();
    for (const auto& end : groups[1]) end->shutdown(soon());
  }
}

// A group does not wait for a rank that has not come yet, or is gone, and that it does not know.
TEST(SharedConnections, ReportThatTheGroupOfARankIsGone) {
  const auto store = std::make_shared<HashStore>();
  const std::shared_ptr<Endpoint> endpoints[] = {endpoint(), endpoint()};
  std::latch gone(1);
  expect_success(on_threads(2, [&](int rank) {
    auto other = join(store, "other", rank, 2, endpoints[rank]);
    if (rank == 0) {
      Contact contact = endpoints[0]->contact();
      contact.context_id = 12345;  // of an abandoned group
      contact.ranks = 2;
      backend_store(store)->set("g/contact/0", to_text(contact));
      gone.wait();
    } else {
      const auto transport = join(store, "g", 1, 2, endpoints[1]);
      std::vector<std::byte> in(1);
      EXPECT_EQ(test::network_error_of([&] { transport->post_recv(0, 1, in)->wait(soon()); }),
                "peer 0: it is no longer in the group");
      gone.count_down();
    }
    other->shutdown(soon());
  }));
}

// The end of a process is the end of all its groups.
TEST(SharedConnections, EndWithTheirProcess) {
  const auto store = std::make_shared<HashStore>();
  auto dying = endpoint();
  const auto surviving = endpoint();
  std::vector<Ends> groups(3);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i].resize(2);
    expect_success(on_threads(2, [&](int rank) {
      groups[i][static_cast<std::size_t>(rank)] =
          join(store, std::to_string(i), rank, 2, rank == 0 ? dying : surviving);
    }));
  }
  dying->disconnect_all();
  for (const Ends& group : groups) {
    std::vector<std::byte> in(1);
    const std::string error = test::network_error_of([&] { group[1]->post_recv(0, 1, in)->wait(soon()); });
    EXPECT_TRUE(error.starts_with("peer 0: it died, or the connection to it was lost")) << error;
  }
}

// --- Copies of the process
// -----------------------------------------------------------------------------------

TEST(Descriptors, AreClosedInACopyOfTheProcess) {
  if (dlaunch::test::copies_may_hang) GTEST_SKIP() << "AddressSanitizer's allocator may hang in a copy";
  const std::size_t before = descriptors();
  std::vector<Ends> groups = groups_of_two(1);
  ASSERT_GT(descriptors(), before);
  const pid_t copy = fork();
  if (copy == 0) _exit(descriptors() == before ? 0 : 1);
  int status = -1;
  waitpid(copy, &status, 0);
  EXPECT_EQ(status, 0);
  // Without a goodbye to the peer.
  test::send_eager(groups[0][0]->eager_channel(), 0, 1, 0);
  test::expect_eager(groups[0][1]->eager_channel(), 0, 1, 0);
  leave_all(groups);
}

}  // namespace
}  // namespace dlaunch::internal
