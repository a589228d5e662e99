#include "runtime/backends/gloo/interfaces.h"

#include <optional>
#include <sstream>

#include "dlaunch/error.h"
#include "runtime/backends/gloo/reach.h"
#include "runtime/backends/gloo/told.h"
#include "runtime/rendezvous/local_address.h"

namespace dlaunch {

namespace {

Reach reach_by_names(const NamedInterfaces& named, const std::string& master) {
  if (named.names.empty()) return {{}, "no network interface is named (" + named.variable + ")"};
  const Result<Addresses> towards_master = addresses_towards(master);
  Reach reach;
  for (const std::string& name : named.names) {
    const Result<Addresses> addresses =
        addresses_of_interface(name, towards_master ? *towards_master : Addresses());
    if (!addresses) return {{}, addresses.error().message() + " (" + named.variable + ")"};
    reach.lanes.push_back(*addresses);
  }
  return reach;
}

Reach reach_by_route(int rank, const std::string& master) {
  // No master: rank 0 says where it is, and the others look for a way there.
  const Result<Addresses> addresses = !master.empty() ? addresses_towards(master)
                                      : rank == 0     ? first_outer_addresses()
                                                      : Result<Addresses>(Addresses{"127.0.0.1"});
  if (!addresses) return {{}, "it has no local address for the other ranks: " + addresses.error().message()};
  return {{*addresses}, {}};
}

std::string key_of(int rank) { return "reach/" + std::to_string(rank); }

// Rank 0 waits for all; where it does so for too long they are who has not come.
std::string collected_by_first(const std::string& collected, const BackendContext& context) {
  try {
    return told_by(0, collected, context);
  } catch (const DistNetworkError&) {
    for (int rank = 0; rank < context.size; ++rank) (void)told_by(rank, key_of(rank), context);
    throw;
  }
}

// Rank 0 collects and all read what it has collected: the work of the store grows with the ranks, not with
// their square.
std::vector<Reach> exchange(const BackendContext& context, const Reach& own) {
  const std::string collected = "reach";
  context.store.set(key_of(context.rank), to_text(own));
  if (context.rank == 0) {
    std::string table;
    for (int rank = 0; rank < context.size; ++rank) {
      table += told_by(rank, key_of(rank), context) + "\n";
    }
    context.store.set(collected, table);
  }
  std::istringstream table(collected_by_first(collected, context));
  std::vector<Reach> all;
  for (std::string line; std::getline(table, line);) all.push_back(parse_reach(line));
  return all;
}

// One of this rank's, or, if those are of no use to reach the meeting from, one that it is reached from.
std::optional<std::string> address_for(const std::string& meeting, const Addresses& own) {
  for (const std::string& address : own) {
    if (is_ipv6(address) == is_ipv6(meeting) && is_loopback(address) == is_loopback(meeting)) return address;
  }
  const Result<Addresses> outer = addresses_towards(meeting);
  return outer ? std::optional(outer->front()) : std::nullopt;
}

}  // namespace

std::vector<LocalAddress> agree_on_addresses(const BackendContext& context) {
  const NamedInterfaces named = named_interfaces();
  const Reach own = named.variable.empty() ? reach_by_route(context.rank, context.master_addr)
                                           : reach_by_names(named, context.master_addr);
  const std::vector<Reach> all = exchange(context, own);
  if (const auto found = disagreement(all)) {
    throw DistNetworkError(found->why, {.peer = found->rank == context.rank ? -1 : found->rank});
  }
  std::vector<LocalAddress> chosen;
  for (std::size_t lane = 0; lane < own.lanes.size(); ++lane) {
    const std::string meeting = meeting_address(all, lane);
    const std::optional<std::string> address = address_for(meeting, own.lanes[lane]);
    if (!address) throw DistNetworkError("this rank has no way to the others, who meet at " + meeting);
    chosen.push_back({*address, named.names.empty() ? "" : named.names[lane]});
  }
  return chosen;
}

}  // namespace dlaunch
