// A store server on a thread of its own, for programs without an event loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "store/base/result.h"
#include "store/loop/uv_loop.h"
#include "store/server/server.h"

namespace dlaunch::store {

// All functions may be called by any thread except the server's own.
class StoreHost {
 public:
  // Serves from the moment these return. They fail as Network::listen and Network::listen_on do, and if no
  // descriptors or threads are left. REQUIRES: the acceptors in `options` outlive the host. The host's thread
  // calls them and the report function.
  static Result<std::unique_ptr<StoreHost>> start(const Address& address, ServerOptions options = {});
  static Result<std::unique_ptr<StoreHost>> start_on(int socket, ServerOptions options = {});
  // Ends every connection and frees the port.
  ~StoreHost();
  StoreHost(const StoreHost&) = delete;
  StoreHost& operator=(const StoreHost&) = delete;

  [[nodiscard]] std::uint16_t port() const { return listening_.port; }
  [[nodiscard]] const std::vector<Address>& addresses() const { return listening_.addresses; }

  // Runs `work` on the server's thread and waits until it has run.
  void run(const std::function<void(StoreServer&)>& work);
  StoreStats stats();

 private:
  using Listen = std::function<Result<Network::Listening>(StoreServer&)>;
  static Result<std::unique_ptr<StoreHost>> start(const Listen& listen, ServerOptions options);
  explicit StoreHost(ServerOptions options);

  UvLoop loop_;
  StoreServer server_;
  Network::Listening listening_;
  std::thread thread_;
};

}  // namespace dlaunch::store
