// The stores that programs make: each call of the documents on each kind of store, and the server that a
// program makes for itself.

#include <arpa/inet.h>
#include <dlaunch/distributed.h>
#include <dlaunch/store.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/api/error_strings.h"
#include "tests/runtime/api/variable.h"
#include "tests/store/client/reserved_port.h"

namespace {

using dlaunch::DistError;
using dlaunch::DistStoreError;
using dlaunch::KeyValueStore;
using dlaunch::make_tcp_store;
using dlaunch::TcpKeyValueStore;
using dlaunch::TcpKeyValueStoreOptions;
using dlaunch::test::contains;
using dlaunch::test::error_of;
using std::chrono::milliseconds;
using namespace std::chrono_literals;

using Keys = std::vector<std::string>;

TcpKeyValueStoreOptions master(std::optional<int> world_size = {}) {
  TcpKeyValueStoreOptions options;
  options.is_master = true;
  options.world_size = world_size;
  options.timeout = 30s;
  return options;
}

TcpKeyValueStoreOptions client(milliseconds timeout = 30s) {
  TcpKeyValueStoreOptions options;
  options.timeout = timeout;
  return options;
}

// A store that a program writes: only what it must.
class OwnKind final : public KeyValueStore {
 public:
  void set(const std::string& key, const std::string& value) override { inner_->set(key, value); }
  std::string get(const std::string& key) override {
    wait(std::span(&key, 1));
    return inner_->get(key);
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override { return inner_->add(key, amount); }
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired) override {
    return inner_->compare_set(key, expected, desired);
  }
  bool wait_for(std::span<const std::string> keys, milliseconds timeout) override {
    return inner_->wait_for(keys, timeout);
  }
  bool delete_key(const std::string& key) override { return inner_->delete_key(key); }

 private:
  const std::shared_ptr<KeyValueStore> inner_ = dlaunch::make_hash_store();
};

struct Folder {
  Folder() { path = mkdtemp(path.data()); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path = std::filesystem::temp_directory_path() / "dlaunch_stores.XXXXXX";
};

class EachStore : public testing::TestWithParam<std::string> {
 protected:
  std::shared_ptr<KeyValueStore> make(milliseconds timeout = 30s) {
    const std::string& kind = GetParam();
    if (kind == "hash") return dlaunch::make_hash_store(timeout);
    if (kind == "file") return dlaunch::make_file_store(folder_.path + "/store", -1, timeout);
    if (kind == "own_kind" || kind == "prefix_of_own_kind") {
      std::shared_ptr<KeyValueStore> own = std::make_shared<OwnKind>();
      own->set_timeout(timeout);
      return kind == "own_kind" ? own : dlaunch::make_prefix_store("part", own);
    }
    TcpKeyValueStoreOptions options = master();
    options.timeout = timeout;
    const auto tcp = make_tcp_store("127.0.0.1", 0, options);
    port_ = tcp->port();
    return kind == "tcp" ? tcp : dlaunch::make_prefix_store("part", tcp);
  }
  // For another thread, where the calls of one object take turns; else the same one.
  std::shared_ptr<KeyValueStore> second(const std::shared_ptr<KeyValueStore>& first) const {
    if (port_ == 0) return first;
    const auto tcp = make_tcp_store("127.0.0.1", port_, client());
    return GetParam() == "tcp" ? tcp : dlaunch::make_prefix_store("part", tcp);
  }

 private:
  const Folder folder_;
  std::uint16_t port_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Stores, EachStore,
                         testing::Values("hash", "file", "tcp", "prefix", "own_kind", "prefix_of_own_kind"),
                         [](const auto& kind) { return kind.param; });

TEST_P(EachStore, HasTheDocumentsCalls) {
  const auto store = make();
  store->set("first_key", "first_value");
  EXPECT_EQ(store->get("first_key"), "first_value");
  EXPECT_EQ(store->add("counter", 1), 1);
  EXPECT_EQ(store->add("counter", 6), 7);
  EXPECT_EQ(store->get("counter"), "7");
  EXPECT_EQ(store->compare_set("key", "first_value", "second_value"), "first_value");
  EXPECT_EQ(store->compare_set("key", "", "first_value"), "first_value");
  EXPECT_EQ(store->compare_set("key", "first_value", "second_value"), "second_value");
  EXPECT_EQ(store->compare_set("key", "first_value", "third"), "second_value");
  EXPECT_EQ(store->get("key"), "second_value");
  EXPECT_TRUE(store->check(Keys{"key", "counter"}));
  EXPECT_FALSE(store->check(Keys{"key", "bad_key"}));
  EXPECT_TRUE(store->delete_key("key"));
  EXPECT_FALSE(store->delete_key("key"));
  store->multi_set(Keys{"a", "b"}, Keys{"1", ""});
  EXPECT_EQ(store->multi_get(Keys{"b", "a"}), (Keys{"", "1"}));
  EXPECT_THROW(store->multi_set(Keys{"a", "b"}, Keys{"1"}), DistError);
  store->barrier("all", 1);
}

TEST_P(EachStore, AnAdditionToATextIsAnErrorOfThatCallOnly) {
  const auto store = make();
  store->set("first_key", "first_value");
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(contains(error_of([&] { store->add("first_key", 1); }), "its value is not a number"));
    EXPECT_EQ(store->get("first_key"), "first_value");
    store->set("other", "value");
  }
}

TEST_P(EachStore, GetAndWaitTakeTheStoresTimeout) {
  const auto store = make(20s);
  EXPECT_EQ(store->timeout(), 20s);
  store->set_timeout(20ms);  // too short for a connection on a busy machine
  const Keys bad_key = {"bad_key"};
  EXPECT_THROW((void)store->get("bad_key"), DistStoreError);
  const std::string said = error_of([&] { store->wait(bad_key); });
  EXPECT_TRUE(contains(said, "waited 20 ms for key '")) << said;
  EXPECT_THROW(store->wait(bad_key, 10ms), DistStoreError);
  EXPECT_FALSE(store->wait_for(bad_key, 10ms));
  store->set_timeout(0ms);
  EXPECT_THROW((void)store->get("bad_key"), DistStoreError);
  store->set_timeout(30s);
  EXPECT_EQ(store->timeout(), 30s);
  store->set("key", "value");  // it is whole
  EXPECT_EQ(store->get("key"), "value");
  store->wait(Keys{"key"});
  store->wait(Keys{"key"}, 10s);
}

TEST_P(EachStore, GetWaitsForTheKey) {
  const auto store = make();
  std::string got;
  std::thread reader([&got, reading = second(store)] { got = reading->get("late"); });
  store->set("late", "here");
  reader.join();
  EXPECT_EQ(got, "here");
}

// With the calls that a program need not write.
class OurStore : public EachStore {};
INSTANTIATE_TEST_SUITE_P(Stores, OurStore, testing::Values("hash", "file", "tcp", "prefix"),
                         [](const auto& kind) { return kind.param; });

TEST(Stores, MissingCallsOfAProgramsOwnStoreAreNamed) {
  const auto store = std::make_shared<OwnKind>();
  const std::vector<std::function<void()>> calls = {
      [&] { (void)store->num_keys(); },       [&] { (void)store->list_keys(); },
      [&] { store->append("key", "value"); }, [&] { store->queue_push("key", "value"); },
      [&] { (void)store->queue_pop("key"); }, [&] { (void)store->queue_len("key"); }};
  for (const auto& call : calls)
    EXPECT_TRUE(contains(error_of(call), "the program's own store does not offer: "));
}

TEST_P(OurStore, CountsListsAndAppends) {
  const auto store = make();
  const std::int64_t before = store->num_keys();
  store->set("b", "1");
  store->append("b", "2");
  store->append("a", "3");
  EXPECT_EQ(store->num_keys(), before + 2);
  EXPECT_EQ(store->get("b"), "12");
  EXPECT_EQ(store->get("a"), "3");
  Keys keys = store->list_keys();
  std::ranges::sort(keys);
  EXPECT_EQ(keys, (Keys{"a", "b"}));
}

TEST_P(OurStore, HasQueuesUnlessItIsAFile) {
  const auto store = make();
  if (GetParam() == "file") {
    EXPECT_THROW(store->queue_push("q", "1"), DistStoreError);
    return;
  }
  store->queue_push("q", "1");
  store->queue_push("q", "2");
  EXPECT_EQ(store->queue_len("q"), 2);
  EXPECT_EQ(store->queue_pop("q"), "1");
  EXPECT_EQ(store->queue_pop("q", false), "2");
  EXPECT_EQ(store->queue_pop("q", false), std::nullopt);
  store->set_timeout(20ms);
  EXPECT_THROW((void)store->queue_pop("q"), DistStoreError);
}

TEST(Stores, HaveTheDocumentsDefaults) {
  const Folder folder;
  EXPECT_EQ(dlaunch::make_hash_store()->timeout(), 300s);
  EXPECT_EQ(dlaunch::make_file_store(folder.path + "/store")->timeout(), 300s);
  EXPECT_TRUE(std::filesystem::exists(folder.path + "/store")) << "world_size -1: the file stays";
  TcpKeyValueStoreOptions options;
  options.is_master = true;
  EXPECT_EQ(make_tcp_store("127.0.0.1", 0, options)->timeout(), 300s);
}

// TCPStore("127.0.0.1", 0, 1, True, timedelta(seconds=30)), and "this should return 2".
TEST(TcpStores, PortZeroIsAnyThatIsFree) {
  const auto server = make_tcp_store("127.0.0.1", 0, master(1));
  EXPECT_EQ(server->host(), "127.0.0.1");
  EXPECT_GT(server->port(), 0);
  EXPECT_TRUE(server->is_serving());
  server->set("first_key", "first_value");
  EXPECT_EQ(server->num_keys(), 2) << "the key that counts the workers, too";
  const auto other = make_tcp_store("127.0.0.1", server->port(), client());
  EXPECT_EQ(other->get("first_key"), "first_value");
  EXPECT_EQ(other->port(), server->port());
  EXPECT_FALSE(other->is_serving());
}

TEST(TcpStores, AClientMustKnowThePort) {
  EXPECT_EQ(error_of([] { make_tcp_store("127.0.0.1", 0); }),
            "make_tcp_store: the port is 0: only the master may leave it to the system; give a client the "
            "master's port()");
}

TEST(TcpStores, ConnectErrorDoesNotMentionLauncherVariables) {
  const dlaunch::test::ReservedPort port;
  const std::string said = error_of([&] { make_tcp_store("127.0.0.1", port.address().port, client(30ms)); });
  EXPECT_TRUE(contains(said, "cannot connect to store 127.0.0.1:")) << said;
  EXPECT_FALSE(contains(said, "MASTER")) << said;
}

TEST(TcpStores, TheMasterWaitsForTheWorkers) {
  const dlaunch::test::ReservedPort port;
  std::shared_ptr<TcpKeyValueStore> server;
  std::thread serving([&] { server = make_tcp_store("127.0.0.1", port.address().port, master(3)); });
  std::vector<std::shared_ptr<TcpKeyValueStore>> clients;
  for (int i = 0; i < 2; ++i) {
    TcpKeyValueStoreOptions options = client();
    options.world_size = 3;
    clients.push_back(make_tcp_store("127.0.0.1", port.address().port, options));
  }
  serving.join();
  ASSERT_TRUE(server);
  EXPECT_EQ(server->add("n", 1), 1);

  TcpKeyValueStoreOptions alone = master(2);
  alone.timeout = 50ms;
  const std::string said = error_of([&] { make_tcp_store("127.0.0.1", 0, alone); });
  EXPECT_TRUE(contains(said, "waited 50 ms for the workers, 1 of 2 came")) << said;
  alone.wait_for_workers = false;
  EXPECT_EQ(make_tcp_store("127.0.0.1", 0, alone)->num_keys(), 0);
}

// The server is the object's.
TEST(TcpStores, TheServerEndsWithItsLastHandle) {
  const dlaunch::test::ReservedPort reserved;
  const std::uint16_t port = reserved.address().port;
  auto first = make_tcp_store("127.0.0.1", port, master());
  const auto other = make_tcp_store("127.0.0.1", port, client());
  auto part = dlaunch::make_prefix_store("part", first);
  first.reset();
  part->set("key", "value");  // a part of it is a handle, too
  EXPECT_EQ(other->get("part/key"), "value");
  part.reset();
  EXPECT_THROW(other->add("n", 1), DistStoreError);
  EXPECT_THROW(make_tcp_store("127.0.0.1", port, client(30ms)), DistStoreError);
  const auto second = make_tcp_store("127.0.0.1", port, master());  // the port is free again
  EXPECT_EQ(second->port(), port);
  EXPECT_FALSE(second->check(Keys{"part/key"})) << "another store";
}

TEST(TcpStores, ASecondServerOfAPortIsRefusedAtOnce) {
  const auto first = make_tcp_store("127.0.0.1", 0, master());
  const std::string at = "127.0.0.1:" + std::to_string(first->port());
  EXPECT_EQ(error_of([&] { make_tcp_store("127.0.0.1", first->port(), master()); }),
            "the store cannot be served at " + at + ": this process serves a store at " + at +
                " already; use another port, or set multi_tenant for both");
  EXPECT_TRUE(contains(error_of([&] { make_tcp_store("127.0.0.2", first->port(), master()); }),
                       "this process serves a store at " + at + " already, and not at the host 127.0.0.2"));
}

TEST(TcpStores, TenantsShareOneServer) {
  TcpKeyValueStoreOptions tenant = master();
  tenant.multi_tenant = true;
  auto first = make_tcp_store("127.0.0.1", 0, tenant);
  const std::uint16_t port = first->port();
  const auto second = make_tcp_store("127.0.0.1", port, tenant);
  first->set("key", "value");
  EXPECT_EQ(second->get("key"), "value");
  EXPECT_TRUE(
      contains(error_of([&] { make_tcp_store("127.0.0.1", port, master()); }), "set multi_tenant for both"));
  first.reset();
  EXPECT_EQ(second->get("key"), "value");
}

// Descriptors of the process at the moment.
std::size_t descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

int bound_socket(std::uint16_t& port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(fd, 10), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  port = ntohs(address.sin_port);
  return fd;
}

TEST(TcpStores, ServesOnASocketOfTheCaller) {
  std::uint16_t port = 0;
  TcpKeyValueStoreOptions options = master();
  options.master_listen_fd = bound_socket(port);
  const auto server = make_tcp_store("127.0.0.1", port, options);
  EXPECT_EQ(server->port(), port);
  make_tcp_store("127.0.0.1", port, client())->set("key", "value");
  EXPECT_EQ(server->get("key"), "value");
}

TEST(TcpStores, ASocketThatIsRefusedIsClosed) {
  const auto taken = make_tcp_store("127.0.0.1", 0, master());
  const std::size_t before = descriptors();
  std::uint16_t port = 0;
  TcpKeyValueStoreOptions options = master();
  options.master_listen_fd = bound_socket(port);
  EXPECT_TRUE(
      contains(error_of([&] { make_tcp_store("127.0.0.1", taken->port(), options); }), "another socket"));
  options.master_listen_fd = bound_socket(port);
  const std::uint16_t other = port == 65535 ? 65534 : port + 1;
  EXPECT_TRUE(contains(error_of([&] { make_tcp_store("127.0.0.1", other, options); }),
                       "the socket to listen on has port " + std::to_string(port)));
  options.master_listen_fd = bound_socket(port);
  options.is_master = false;
  EXPECT_TRUE(
      contains(error_of([&] { make_tcp_store("127.0.0.1", port, options); }), "is_master is not set"));
  EXPECT_EQ(descriptors(), before);
}

// As PyTorch's: a master finds the launcher's agent at its place.
TEST(TcpStores, AMasterWhoseAgentServesIsAClient) {
  const auto server = make_tcp_store("127.0.0.1", 0, master());
  server->set("key", "of the agent");
  const dlaunch::test::Variable says("TORCHELASTIC_USE_AGENT_STORE", "True");
  EXPECT_TRUE(contains(error_of([&] { make_tcp_store("127.0.0.1", server->port(), master()); }), "already"))
      << "it serves elsewhere";
  const std::string port = std::to_string(server->port());
  const dlaunch::test::Variable where("MASTER_ADDR", "127.0.0.1");
  const dlaunch::test::Variable which("MASTER_PORT", port.c_str());
  const auto second = make_tcp_store("127.0.0.1", server->port(), master());
  EXPECT_FALSE(second->is_serving());
  EXPECT_EQ(second->get("key"), "of the agent");
}

TEST(TcpStores, AWorldSizeBelowOneIsRefused) {
  EXPECT_EQ(error_of([] { make_tcp_store("127.0.0.1", 0, master(0)); }),
            "make_tcp_store: world_size is 0; at least 1 is needed");
}

}  // namespace
