#include "runtime/backends/gloo/interfaces.h"

#include <optional>
#include <sstream>

#include "dlaunch/error.h"
#include "runtime/backends/gloo/peer_key.h"
#include "runtime/backends/gloo/reachability.h"
#include "runtime/rendezvous/local_address.h"

namespace dlaunch::internal {

namespace {

Reachability reach_by_names(const NamedInterfaces& named, const std::string& master) {
  if (named.names.empty()) return {{}, "no network interface is named (" + named.variable + ")"};
  const Result<Addresses> towards_master = addresses_towards(master);
  Reachability reachability;
  for (const std::string& name : named.names) {
    const Result<Addresses> addresses =
        addresses_of_interface(name, towards_master ? *towards_master : Addresses());
    if (!addresses) return {{}, addresses.error().message() + " (" + named.variable + ")"};
    reachability.rails.push_back(*addresses);
  }
  return reachability;
}

Reachability reach_by_route(int rank, const std::string& master) {
  // Without a master, rank 0 publishes its address, and the others look for a route to it.
  const Result<Addresses> addresses = !master.empty() ? addresses_towards(master)
                                      : rank == 0     ? first_outer_addresses()
                                                      : Result<Addresses>(Addresses{"127.0.0.1"});
  if (!addresses) return {{}, "it has no local address for the other ranks: " + addresses.error().message()};
  return {{*addresses}, {}};
}

std::string reach_key_of(int rank) { return "reach/" + std::to_string(rank); }

// Rank 0 waits for all ranks; if it waits for too long, the error names the ranks that have not come.
std::string collected_by_first(const std::string& collected, const BackendContext& context) {
  try {
    return wait_for_peer_key(0, collected, context);
  } catch (const DistNetworkError&) {
    for (int rank = 0; rank < context.size; ++rank)
      (void)wait_for_peer_key(rank, reach_key_of(rank), context);
    throw;
  }
}

// Rank 0 collects, and all ranks read the collection: the store's work grows with the ranks, not with their
// square.
std::vector<Reachability> exchange(const BackendContext& context, const Reachability& own) {
  const std::string collected = "reach";
  context.store.set(reach_key_of(context.rank), to_text(own));
  if (context.rank == 0) {
    std::string table;
    for (int rank = 0; rank < context.size; ++rank) {
      table += wait_for_peer_key(rank, reach_key_of(rank), context) + "\n";
    }
    context.store.set(collected, table);
  }
  std::istringstream table(collected_by_first(collected, context));
  std::vector<Reachability> all;
  for (std::string line; std::getline(table, line);) all.push_back(parse_reachability(line));
  return all;
}

// One of this rank's addresses, or, if none of them reaches the rendezvous, a local one that does.
std::optional<std::string> address_for(const std::string& target, const Addresses& own) {
  for (const std::string& address : own) {
    if (is_ipv6(address) == is_ipv6(target) && is_loopback(address) == is_loopback(target)) return address;
  }
  const Result<Addresses> outer = addresses_towards(target);
  return outer ? std::optional(outer->front()) : std::nullopt;
}

}  // namespace

std::vector<LocalAddress> agree_on_addresses(const BackendContext& context) {
  const NamedInterfaces named = named_interfaces();
  const Reachability own = named.variable.empty() ? reach_by_route(context.rank, context.master_addr)
                                                  : reach_by_names(named, context.master_addr);
  const std::vector<Reachability> all = exchange(context, own);
  if (const auto found = disagreement(all)) {
    throw DistNetworkError(found->why, {.peer = found->rank == context.rank ? -1 : found->rank});
  }
  std::vector<LocalAddress> chosen;
  for (std::size_t rail = 0; rail < own.rails.size(); ++rail) {
    const std::string target = rail_address(all, rail);
    const std::optional<std::string> address = address_for(target, own.rails[rail]);
    if (!address)
      throw DistNetworkError("this rank has no route to the rendezvous of the others at " + target);
    chosen.push_back({*address, named.names.empty() ? "" : named.names[rail]});
  }
  return chosen;
}

}  // namespace dlaunch::internal
