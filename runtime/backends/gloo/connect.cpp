#include "runtime/backends/gloo/connect.h"

#include <string>
#include <utility>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/backends/gloo/endpoints.h"
#include "runtime/backends/gloo/interfaces.h"
#include "runtime/backends/gloo/multi_rail_transport.h"
#include "runtime/backends/gloo/tcp_transport.h"

namespace dlaunch::internal {

namespace {

// The part of a group's store that one of its meshes uses while it is made.
class MeshStore final : public BackendStore {
 public:
  MeshStore(BackendStore& store, std::size_t mesh)
      : store_(store), prefix_("mesh/" + std::to_string(mesh) + "/") {}

  void set(const std::string& key, const std::string& value) override { store_.set(prefix_ + key, value); }
  std::string get(const std::string& key, Deadline deadline) override {
    return store_.get(prefix_ + key, deadline);
  }
  void wait(std::span<const std::string> keys, Deadline deadline) override {
    std::vector<std::string> here;
    here.reserve(keys.size());
    for (const std::string& key : keys) here.push_back(prefix_ + key);
    store_.wait(here, deadline);
  }

 private:
  BackendStore& store_;
  const std::string prefix_;
};

std::unique_ptr<TcpTransport> connect_at(const std::string& address, const BackendContext& context) {
  const EndpointLease lease(address);
  return std::make_unique<TcpTransport>(context, lease.endpoint());
}

}  // namespace

GlooConnections connect_over_gloo(const BackendContext& context) {
  const std::vector<LocalAddress> addresses = agree_on_addresses(context);
  TcpTransport* first = nullptr;
  if (addresses.size() == 1) {
    auto only = connect_at(addresses.front().address, context);
    first = only.get();
    return {std::move(only), first};
  }
  std::vector<MultiRailTransport::Rail> rails;
  for (const LocalAddress& local : addresses) {
    MeshStore store(context.store, rails.size());
    const BackendContext here{store,           context.rank,     context.size,        context.group,
                              context.timeout, context.deadline, context.master_addr, context.check};
    try {
      auto rail = connect_at(local.address, here);
      if (rails.empty()) first = rail.get();
      rails.push_back({local.interface, std::move(rail)});
    } catch (const DistNetworkError& e) {
      throw DistNetworkError(e.reason() + " (interface '" + local.interface + "')", e.context());
    }
  }
  return {std::make_unique<MultiRailTransport>(std::move(rails)), first};
}

}  // namespace dlaunch::internal
