#include "runtime/rendezvous/served_store.h"

#include <unistd.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/backend/module_file.h"
#include "runtime/base/own_process.h"
#include "runtime/store_server/store_server.h"

namespace dlaunch::internal {

namespace {

struct ServerModule {
  StoreServerStart start;
  StoreServerStop stop;
};

ServerModule find_server_module() {
  const auto symbol = [](const char* name) {
    return find_in_module("store_server.so", name, "the store cannot be served");
  };
  return {reinterpret_cast<StoreServerStart>(symbol(store_server_start_symbol)),
          reinterpret_cast<StoreServerStop>(symbol(store_server_stop_symbol))};
}

// Closed unless a server takes it.
class GivenSocket {
 public:
  explicit GivenSocket(std::optional<int> socket) : socket_(socket) {}
  ~GivenSocket() {
    if (socket_) close(*socket_);
  }
  GivenSocket(const GivenSocket&) = delete;
  GivenSocket& operator=(const GivenSocket&) = delete;
  int hand_over() { return std::exchange(socket_, std::nullopt).value_or(-1); }

 private:
  std::optional<int> socket_;
};

class ServedStores {
 public:
  using Handle = std::shared_ptr<const ServedStore>;

  // The process's; never destroyed, since a store may live as long as the process.
  static ServedStores& get() {
    static ServedStores& all = *new ServedStores;
    return all;
  }

  Handle serve(const ServeRequest& request) {
    GivenSocket socket(request.socket);
    const std::lock_guard lock(mutex_);
    forget_the_originals();
    if (const auto at = servers_.find(request.address.port); at != servers_.end()) {
      require_sharing(*at->second, request);
      return use(*at->second);
    }
    return use(start(request, socket));
  }

  // Shares the server with any other user.
  Handle serve_or_use(const Address& address) {
    const std::lock_guard lock(mutex_);
    forget_the_originals();
    if (const auto at = servers_.find(address.port); at != servers_.end()) return use(*at->second);
    GivenSocket none(std::nullopt);
    return use(start({.address = address}, none));
  }

 private:
  struct Server {
    ServedStore about;
    bool shared = false;
    void* handle = nullptr;
    StoreServerStop stop = nullptr;
    OwnProcess process = {};
    int users = 0;
  };

  // REQUIRES: mutex_ is held.
  Server& start(const ServeRequest& request, GivenSocket& socket) {
    const ServerModule module = find_server_module();
    StoreServerPlace place{request.address.host.c_str(), request.address.port, socket.hand_over()};
    char why[512] = {};
    auto server = std::make_unique<Server>();
    server->handle = module.start(&place, why, sizeof why);
    if (!server->handle) throw DistStoreError(why);
    server->stop = module.stop;
    server->about.address = {request.address.host, place.port};
    server->shared = request.shares;
    if (request.address.port != 0 && request.address.port != place.port) {
      module.stop(server->handle);
      throw DistStoreError("the socket to listen on has port " + std::to_string(place.port) + ", not " +
                           std::to_string(request.address.port));
    }
    return *(servers_[place.port] = std::move(server));
  }

  static void require_sharing(const Server& server, const ServeRequest& request) {
    const std::string already =
        "this process serves a store at " + to_string(server.about.address) + " already";
    if (server.about.address.host != request.address.host)
      throw DistStoreError(already + ", and not at the host " + request.address.host + "; use another port");
    if (request.socket)
      throw DistStoreError(already + ", and cannot listen on another socket for it; use another port");
    if (!server.shared || !request.shares)
      throw DistStoreError(already + "; use another port, or set multi_tenant for both");
  }

  Handle use(Server& server) {
    ++server.users;
    return {&server.about,
            [this, process = server.process, port = server.about.address.port](const ServedStore*) {
              if (process.is_this()) leave(port);
            }};
  }

  // The last user frees the port before the next call can look it up.
  void leave(std::uint16_t port) {
    const std::lock_guard lock(mutex_);
    const auto at = servers_.find(port);
    Server& server = *at->second;
    if (--server.users > 0) return;
    server.stop(server.handle);
    servers_.erase(at);
  }

  // A forked copy has no servers: their threads exist only in the original.
  void forget_the_originals() {
    for (auto at = servers_.begin(); at != servers_.end();) {
      if (at->second->process.is_this()) {
        ++at;
      } else {
        (void)at->second.release();  // handles may point to it
        at = servers_.erase(at);
      }
    }
  }

  std::mutex mutex_;
  std::map<std::uint16_t, std::unique_ptr<Server>> servers_;  // by port; protected by mutex_
};

}  // namespace

std::shared_ptr<const ServedStore> serve_store(const ServeRequest& request) {
  return ServedStores::get().serve(request);
}

void serve_store_of_rank_zero(const Address& address) {
  static std::mutex mutex;
  // Until the process ends. Entries of another process are ignored: this one is a forked copy of it.
  static auto& kept = *new std::map<std::uint16_t, std::pair<OwnProcess, std::shared_ptr<const ServedStore>>>;
  const std::lock_guard lock(mutex);
  if (const auto at = kept.find(address.port); at != kept.end() && at->second.first.is_this()) return;
  try {
    kept.insert_or_assign(address.port, std::pair(OwnProcess(), ServedStores::get().serve_or_use(address)));
  } catch (const DistStoreError& e) {
    throw DistStoreError("rank 0 cannot serve the store at " + to_string(address) + ": " + e.reason() +
                         "; if another process serves it already, set "
                         "TORCHELASTIC_USE_AGENT_STORE=True");
  }
}

}  // namespace dlaunch::internal
