#include "runtime/backends/gloo/interfaces.h"

#include <cstdlib>
#include <sstream>

#include "dlaunch/error.h"
#include "runtime/backends/gloo/local_address.h"
#include "runtime/backends/gloo/reach.h"

namespace dlaunch {

namespace {

struct Named {
  std::string variable;  // empty: none is set
  std::vector<std::string> interfaces;
};

Named named_interfaces() {
  for (const char* const variable : {"DLAUNCH_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}) {
    const char* const value = std::getenv(variable);
    if (!value) continue;
    Named named{variable, {}};
    std::string text = value;
    for (char& c : text) c = c == ',' ? ' ' : c;
    std::istringstream names(text);
    for (std::string name; names >> name;) named.interfaces.push_back(name);
    if (!named.interfaces.empty()) return named;
  }
  return {};
}

Reach reach_by_names(const Named& named, const std::string& master) {
  const Result<std::string> towards_master = address_towards(master);
  Reach reach;
  for (const std::string& name : named.interfaces) {
    const Result<std::string> address = address_of_interface(name, towards_master ? *towards_master : "");
    if (!address) return {{}, address.error().message() + " (" + named.variable + ")"};
    reach.addresses.push_back(*address);
  }
  return reach;
}

Reach reach_by_route(int rank, const std::string& master) {
  // No master: rank 0 says where it is, and the others look for a way there.
  const Result<std::string> address = !master.empty() ? address_towards(master)
                                      : rank == 0     ? first_outer_address()
                                                      : Result<std::string>("127.0.0.1");
  if (!address) return {{}, "it has no local address for the other ranks: " + address.error().message()};
  return {{*address}, {}};
}

std::string key_of(int rank) { return "reach/" + std::to_string(rank); }

// Rank 0 collects and all read what it has collected: the work of the store grows with the ranks, not with
// their square.
std::vector<Reach> exchange(const BackendContext& context, const Reach& own) {
  const std::string collected = "reach";
  context.store.set(key_of(context.rank), to_text(own));
  if (context.rank == 0) {
    std::string table;
    for (int rank = 0; rank < context.size; ++rank) {
      table += context.store.get(key_of(rank), context.deadline) + "\n";
    }
    context.store.set(collected, table);
  }
  std::istringstream table(context.store.get(collected, context.deadline));
  std::vector<Reach> all;
  for (std::string line; std::getline(table, line);) all.push_back(parse_reach(line));
  return all;
}

}  // namespace

std::vector<LocalAddress> agree_on_addresses(const BackendContext& context) {
  const Named named = named_interfaces();
  Reach own = named.interfaces.empty() ? reach_by_route(context.rank, context.master_addr)
                                       : reach_by_names(named, context.master_addr);
  const std::vector<Reach> all = exchange(context, own);
  if (const auto found = disagreement(all)) {
    throw DistNetworkError(found->why, {.peer = found->rank == context.rank ? -1 : found->rank});
  }
  if (const auto meeting = meeting_address(all);
      named.interfaces.empty() && meeting && is_loopback(own.addresses.front())) {
    const Result<std::string> outer = address_towards(*meeting);
    if (!outer) throw DistNetworkError("no way to the other ranks: " + outer.error().message());
    own.addresses = {*outer};
  }
  std::vector<LocalAddress> chosen;
  for (std::size_t i = 0; i < own.addresses.size(); ++i) {
    chosen.push_back({own.addresses[i], named.interfaces.empty() ? "" : named.interfaces[i]});
  }
  return chosen;
}

}  // namespace dlaunch
