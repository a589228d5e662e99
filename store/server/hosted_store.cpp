#include "store/server/hosted_store.h"

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "store/base/text.h"
#include "store/client/job_key.h"
#include "store/client/steady_time.h"
#include "store/contract/worker_env.h"

namespace dlaunch::store {
namespace {

using Host = std::shared_ptr<StoreHost>;

// The servers that the masters of this process share, by port.
class SharedHosts {
 public:
  // One for the process; never destroyed, since a store may live until the process ends.
  static SharedHosts& get() {
    static auto& all = *new SharedHosts;
    return all;
  }

  template <class Start>
  Host find_or_start(std::uint16_t port, Start&& start) {
    const std::lock_guard lock(mutex_);
    if (const auto at = hosts_.find(port); at != hosts_.end()) return use(at);
    std::unique_ptr<StoreHost> host = start();
    if (host == nullptr) return nullptr;
    const std::uint16_t real_port = host->port();
    return use(hosts_.insert_or_assign(real_port, Shared{std::move(host)}).first);
  }

 private:
  struct Shared {
    std::unique_ptr<StoreHost> host;
    int users = 0;
  };
  using Hosts = std::map<std::uint16_t, Shared>;

  Host use(Hosts::iterator at) {
    ++at->second.users;
    return {at->second.host.get(), [this, at](StoreHost*) { leave(at); }};
  }

  // The last user frees the port before the next master looks.
  void leave(Hosts::iterator at) {
    const std::lock_guard lock(mutex_);
    if (--at->second.users == 0) hosts_.erase(at);
  }

  std::mutex mutex_;
  Hosts hosts_;  // protected by mutex_
};

[[noreturn]] void contradiction(std::string what) {
  throw StoreError({ErrorKind::invalid, "cannot make a TCP store", "", std::move(what), ""});
}

bool agent_serves(const HostedStoreOptions& options) {
  if (options.use_agent_store) return *options.use_agent_store;
  const char* set = std::getenv(std::string(env::use_agent_store).c_str());
  const std::string value = lower(set == nullptr ? "" : set);
  return value == "1" || value == "true" || value == "t" || value == "yes" || value == "y";
}

// Closes the socket given to a store, unless a server took it.
class UnusedSocket {
 public:
  explicit UnusedSocket(std::optional<int> socket) : socket_(socket) {}
  ~UnusedSocket() {
    if (socket_) ::close(*socket_);
  }
  UnusedSocket(const UnusedSocket&) = delete;
  UnusedSocket& operator=(const UnusedSocket&) = delete;
  void is_used() { socket_.reset(); }

 private:
  std::optional<int> socket_;
};

// Null: an agent serves there.
std::unique_ptr<StoreHost> start_host(const HostedStoreOptions& options) {
  auto started = options.master_listen_fd
                     ? StoreHost::start_on(*options.master_listen_fd, options.server)
                     : StoreHost::start({options.listen_host, options.address.port}, options.server);
  if (started) return std::move(*started);
  if (options.address.port != 0 && agent_serves(options)) return nullptr;
  throw StoreError(started.error());
}

void check(const HostedStoreOptions& options) {
  if (options.world_size && *options.world_size < 1)
    contradiction("a world size of " + std::to_string(*options.world_size));
  if (!options.is_master && options.master_listen_fd)
    contradiction("a socket to listen on, but this is not the master");
  if (!options.is_master && options.address.port == 0) contradiction("a client must know the port");
}

// The server of a master; null for a client.
Host host_for(const HostedStoreOptions& options) {
  UnusedSocket socket(options.master_listen_fd);
  check(options);
  if (!options.is_master) return nullptr;
  const auto start = [&] {
    socket.is_used();
    return start_host(options);
  };
  Host host =
      options.multi_tenant ? SharedHosts::get().find_or_start(options.address.port, start) : Host(start());
  const bool right_port =
      host == nullptr || options.address.port == 0 || host->port() == options.address.port;
  if (!right_port) {
    contradiction("the socket to listen on has port " + std::to_string(host->port()) + ", not " +
                  std::to_string(options.address.port));
  }
  return host;
}

TcpStoreOptions client_options(const HostedStoreOptions& options, const StoreHost* host) {
  TcpStoreOptions client;
  client.server = options.address;
  if (host != nullptr) client.server.port = host->port();
  client.timeout = options.timeout;
  client.key = host != nullptr ? options.server.key.key : job_store_key(client.server).key;
  client.dialect = host != nullptr ? Dialect::v2_2 : options.dialect;
  if (options.wait_for_workers) client.world_size = options.world_size;
  return client;
}

}  // namespace

HostedStore::HostedStore(const HostedStoreOptions& options)
    : HostedStore(options, host_for(options), deadline_after(steady_now(), options.timeout)) {}

HostedStore::HostedStore(const HostedStoreOptions& options, Host host, TimePoint deadline)
    : TcpStore(client_options(options, host.get())), host_(std::move(host)) {
  if (host_ != nullptr && options.wait_for_workers && options.world_size)
    await_workers(*options.world_size, deadline);
}

}  // namespace dlaunch::store
