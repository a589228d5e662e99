// The TCP store that is server, client, or both.
#include "store/server/hosted_store.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>

#include "store/contract/worker_env.h"
#include "tests/store/client/other_process.h"
#include "tests/store/client/reserved_port.h"

namespace dlaunch::store {
namespace {

using namespace std::chrono_literals;

HostedStoreOptions master() {
  HostedStoreOptions options;
  options.address = {"127.0.0.1", 0};
  options.listen_host = "127.0.0.1";
  options.is_master = true;
  options.timeout = 60s;
  return options;
}

HostedStoreOptions client_of(const HostedStore& store) {
  HostedStoreOptions options = master();
  options.address.port = store.port();
  options.is_master = false;
  return options;
}

std::string error_of(const HostedStoreOptions& options, ErrorKind kind) {
  try {
    const HostedStore store(options);
    return "none";
  } catch (const StoreError& error) {
    EXPECT_EQ(error.error().kind, kind) << error.what();
    return error.what();
  }
}

struct ListeningSocket {
  ListeningSocket() : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0 && listen(fd, 10) == 0 &&
        getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
      port = ntohs(address.sin_port);
    }
  }
  [[nodiscard]] bool is_open() const { return fcntl(fd, F_GETFD) != -1; }
  int fd;
  std::uint16_t port = 0;
};

TEST(HostedStore, IsServerAndClient) {
  HostedStore store(master());
  EXPECT_NE(store.port(), 0);
  EXPECT_TRUE(store.is_serving());
  HostedStore other(client_of(store));
  EXPECT_FALSE(other.is_serving());
  EXPECT_EQ(other.port(), store.port());
  other.set("k", "v");
  EXPECT_EQ(store.get("k"), "v");
}

TEST(HostedStore, ListensOnAllInterfacesByDefault) {
  auto options = master();
  options.listen_host = HostedStoreOptions{}.listen_host;
  HostedStore store(options);
  for (const char* host : {"127.0.0.1", "localhost"}) {
    auto client = client_of(store);
    client.address.host = host;
    EXPECT_EQ(HostedStore(client).num_keys(), 0) << host;
  }
}

TEST(HostedStore, WaitsForItsWorkers) {
  auto options = master();
  // The clients know the port before the master exists.
  const test::ReservedPort port;
  options.address = port.address();
  options.world_size = 3;
  std::vector<std::thread> workers;
  workers.reserve(2);
  for (int i = 0; i < 2; ++i) {
    workers.emplace_back([options, i]() mutable {
      options.is_master = false;
      HostedStore store(options);
      store.set("worker" + std::to_string(i), "");
      store.get("end");
    });
  }
  HostedStore store(options);
  store.wait(std::vector<std::string>{"worker0", "worker1"});
  EXPECT_EQ(store.num_keys(), 3);  // with "init/"
  store.set("end", "");
  for (auto& worker : workers) worker.join();
}

TEST(HostedStore, TimeoutReportsTheNumberOfWorkers) {
  auto options = master();
  const test::ReservedPort port;
  options.address = port.address();
  options.world_size = 3;
  options.timeout = 100ms;
  EXPECT_EQ(error_of(options, ErrorKind::timeout),
            "store " + to_string(options.address) + ": waited 100 ms for the workers, 1 of 3 came");
  options.wait_for_workers = false;
  HostedStore store(options);
  EXPECT_EQ(store.num_keys(), 0);  // no worker is counted either
}

TEST(HostedStore, APortInUseIsSaid) {
  const HostedStore store(master());
  auto second = master();
  second.address.port = store.port();
  EXPECT_EQ(error_of(second, ErrorKind::in_use),
            "cannot listen on 127.0.0.1:" + std::to_string(store.port()) + ": address already in use");
  second.multi_tenant = true;  // the first one did not set it
  second.use_agent_store = false;
  EXPECT_NE(error_of(second, ErrorKind::in_use), "none");
}

TEST(HostedStore, AForeignAddressIsSaid) {
  auto options = master();
  options.listen_host = "192.0.2.1";
  EXPECT_EQ(error_of(options, ErrorKind::foreign),
            "cannot listen on 192.0.2.1:0: not an address of this machine");
}

TEST(HostedStore, OptionsThatContradictEachOther) {
  auto options = master();
  options.world_size = 0;
  EXPECT_EQ(error_of(options, ErrorKind::invalid), "cannot make a TCP store: a world size of 0");
  options = master();
  options.is_master = false;
  EXPECT_EQ(error_of(options, ErrorKind::invalid), "cannot make a TCP store: a client must know the port");
}

TEST(HostedStore, TenantsShareOneServer) {
  auto options = master();
  options.multi_tenant = true;
  auto first = std::make_unique<HostedStore>(options);
  options.address.port = first->port();
  auto second = std::make_unique<HostedStore>(options);
  EXPECT_TRUE(second->is_serving());
  first->set("k", "v");
  EXPECT_EQ(first->get("k"), "v");
  first.reset();
  EXPECT_EQ(second->get("k"), "v");  // the server ends with the last of them
  HostedStore client(client_of(*second));
  second.reset();
  EXPECT_THROW(client.get("k"), StoreError);
  EXPECT_EQ(HostedStore(options).num_keys(), 0);  // the port is free again, at once
}

TEST(HostedStore, TenantsThatComeAndGoTogether) {
  const test::ReservedPort port;
  auto options = master();
  options.address = port.address();
  options.multi_tenant = true;
  std::vector<std::thread> threads;
  std::atomic<int> served = 0;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 10; ++n) {
        HostedStore store(options);
        store.set("k", "v");
        served += store.get("k") == "v" ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(served, 40);
}

TEST(HostedStore, ServesOnASocketItIsGiven) {
  const ListeningSocket socket;
  auto options = master();
  options.master_listen_fd = socket.fd;
  {
    HostedStore store(options);
    EXPECT_EQ(store.port(), socket.port);
    HostedStore(client_of(store)).set("k", "v");
    EXPECT_EQ(store.get("k"), "v");
  }
  EXPECT_FALSE(socket.is_open());
}

TEST(HostedStore, ASocketIsCheckedAndNeverLeaks) {
  const ListeningSocket wrong_port;
  auto options = master();
  options.address.port = static_cast<std::uint16_t>(wrong_port.port ^ 1U);
  options.master_listen_fd = wrong_port.fd;
  EXPECT_EQ(error_of(options, ErrorKind::invalid),
            "cannot make a TCP store: the socket to listen on has port " + std::to_string(wrong_port.port) +
                ", not " + std::to_string(options.address.port));
  EXPECT_FALSE(wrong_port.is_open());

  const ListeningSocket no_master;
  options.is_master = false;
  options.master_listen_fd = no_master.fd;
  EXPECT_NE(error_of(options, ErrorKind::invalid), "none");
  EXPECT_FALSE(no_master.is_open());

  options = master();
  options.multi_tenant = true;
  const HostedStore first(options);
  const ListeningSocket not_needed;
  options.address.port = first.port();
  options.master_listen_fd = not_needed.fd;
  const HostedStore second(options);
  BlockingSocket nobody;  // its descriptor's number may be another's by now
  EXPECT_FALSE(nobody.connect({"127.0.0.1", not_needed.port}, deadline_after(steady_now(), 60s)));
}

TEST(HostedStore, WhereAnAgentServesAMasterIsAClient) {
  HostedStore agents(master());
  auto worker = client_of(agents);
  worker.is_master = true;
  worker.world_size = 2;  // it waits for no one: the agent's server is not its own
  worker.use_agent_store = true;
  HostedStore store(worker);
  EXPECT_FALSE(store.is_serving());
  store.set("k", "v");
  EXPECT_EQ(agents.get("k"), "v");

  // Without the option the environment decides.
  worker.use_agent_store = std::nullopt;
  const std::string name(env::use_agent_store);
  for (const char* value : {"True", "1", "yes"}) {
    setenv(name.c_str(), value, 1);
    EXPECT_FALSE(HostedStore(worker).is_serving()) << value;
  }
  for (const char* value : {"False", "0", ""}) {
    setenv(name.c_str(), value, 1);
    EXPECT_NE(error_of(worker, ErrorKind::in_use), "none") << value;
  }
  unsetenv(name.c_str());
}

TEST(HostedStore, AMasterThatGoesEndsTheWaitsOfOthers) {
  auto store = std::make_unique<HostedStore>(master());
  const std::string address = to_string(store->server());
  HostedStore client(client_of(*store));
  std::thread ender([&] { store.reset(); });
  try {
    client.get("never");
    ADD_FAILURE() << "there is no such key";
  } catch (const StoreError& error) {
    EXPECT_EQ(error.error().kind, ErrorKind::network);
    EXPECT_EQ(std::string(error.what()).find("store " + address + ": lost during get of key 'never': "), 0U)
        << error.what();
  }
  ender.join();
}

TEST(HostedStore, TwoProcessesCountTogether) {
  constexpr int each = 200;
  test::OtherProcess other([](const std::string& port) {
    HostedStoreOptions options = master();
    options.is_master = false;
    options.address.port = static_cast<std::uint16_t>(std::stoi(port));
    HostedStore store(options);
    for (int i = 0; i < each; ++i) store.add("n", 1);
    for (int i = 0; i < 10; ++i) store.set("pong" + std::to_string(i), store.get("ping" + std::to_string(i)));
    store.set("done", "");
    return true;
  });
  HostedStore store(master());
  other.tell(std::to_string(store.port()));
  for (int i = 0; i < each; ++i) store.add("n", 1);
  for (int i = 0; i < 10; ++i) {
    store.set("ping" + std::to_string(i), "v");
    EXPECT_EQ(store.get("pong" + std::to_string(i)), "v");
  }
  EXPECT_EQ(store.add("n", 0), 2 * each);
  store.get("done");
  EXPECT_EQ(store.num_keys(), 22);
}

}  // namespace
}  // namespace dlaunch::store
