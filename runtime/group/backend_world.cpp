#include "runtime/group/backend_world.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "dlaunch/error.h"
#include "runtime/group/default_group.h"
#include "runtime/rendezvous/local_address.h"
#include "runtime/rendezvous/served_store.h"
#include "store/contract/worker_env.h"

namespace dlaunch::internal {

namespace {

// Of this host, for the other ranks. If the program is to use another interface it names that one.
std::string own_host(bool is_one_host) {
  if (is_one_host) return "127.0.0.1";
  const NamedInterfaces named = named_interfaces();
  const Result<Addresses> own =
      named.names.empty() ? first_outer_addresses() : addresses_of_interface(named.names.front(), {});
  if (!own) throw DistNetworkError(own.error().message());
  return own->front();
}

// The same store for all default groups of this process.
Address served_address(bool is_one_host) {
  static std::shared_ptr<const ServedStore>& server = *new std::shared_ptr<const ServedStore>;
  if (!server) server = serve_store({.address = {own_host(is_one_host), 0}});
  return server->address;
}

}  // namespace

std::optional<Identity> identify_by_backend(const std::string& backend, const Environment& environment,
                                            Deadline deadline) {
  constexpr std::array<std::string_view, 4> names = {env::rank, env::world_size, env::master_addr,
                                                     env::master_port};
  const bool is_named = std::ranges::any_of(
      names, [&](std::string_view variable) { return environment(variable).has_value(); });
  if (is_named) return std::nullopt;
  const Result<const BackendModule*> module = registry().find(backend);
  if (!module && module.error().kind == ErrorKind::refused) throw DistBackendError(module.error().message());
  if (!module || (*module)->world == nullptr) return std::nullopt;
  const BackendWorld& world = *(*module)->world;
  const BackendWorld::Place place = world.place();
  const std::string own = place.rank == 0 ? to_string(served_address(place.is_one_host)) : "";
  const Result<Address> master = parse_address(world.share(own, deadline), 0);
  if (!master) throw DistBackendError(master.error().message());
  Identity self;
  self.rank = place.rank;
  self.world_size = place.size;
  self.master = *master;
  return self;
}

}  // namespace dlaunch::internal
