// A TCP store as in torch.distributed: one object that is the server, a client of it, or both.
//
// The master serves, and is its server's first client; the others are clients only, as TcpStore is. The
// server ends with the last object that shares it. So the master must outlive the other workers' use of the
// store: PyTorch's own threads use it until their processes end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "store/client/tcp_store.h"
#include "store/server/server.h"
#include "store/server/store_host.h"

namespace dlaunch::store {

struct HostedStoreOptions {
  Address address;  // the master's, as every client reaches it. A master's port 0: any free port
  std::optional<std::int64_t> world_size;  // workers, with the master; none: any number
  bool is_master = false;
  Duration timeout = std::chrono::seconds(300);  // for connecting and for the workers; then the store's
  // Each object counts as a worker, and the master waits until `world_size` of them have come. Ignored
  // without a world size.
  bool wait_for_workers = true;
  // A second master of one port in one process shares the first one's server. Both must set it.
  bool multi_tenant = false;
  // A socket bound to the master's port, which may listen already. The store owns it from now on, even if the
  // constructor throws.
  std::optional<int> master_listen_fd;
  // Whether an agent may already serve at this address: a master that cannot listen is then a client. None:
  // the environment variable TORCHELASTIC_USE_AGENT_STORE decides (1, true, t, yes or y, in any case).
  std::optional<bool> use_agent_store;
  std::string listen_host = "*";  // the master's interfaces: all, as PyTorch's
  ServerOptions server = {};
  Dialect dialect = Dialect::v2_2;  // for a client of an old server
};

class HostedStore final : public TcpStore {
 public:
  // Throws StoreError: invalid (options that contradict each other, a world size below 1), network or
  // not_found (a master cannot listen), timeout (no server, or too few workers came), and as TcpStore does.
  explicit HostedStore(const HostedStoreOptions& options);

  [[nodiscard]] std::uint16_t port() const { return server().port; }
  [[nodiscard]] bool is_serving() const { return host_ != nullptr; }

 private:
  using Host = std::shared_ptr<StoreHost>;

  HostedStore(const HostedStoreOptions& options, Host host, TimePoint deadline);

  const Host host_;  // none: a client only
};

}  // namespace dlaunch::store
