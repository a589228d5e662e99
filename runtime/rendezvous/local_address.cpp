#include "runtime/rendezvous/local_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <sstream>
#include <vector>

namespace dlaunch::internal {

namespace {

Result<std::string> numeric(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST];
  const int failed = getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  if (failed != 0)
    return Error{ErrorKind::network, "cannot write an address as text", "", gai_strerror(failed), ""};
  return std::string(text);
}

// A datagram socket that is "connected" only looks up the route.
Result<std::string> source_for(const addrinfo& target) {
  const int fd = socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Error{ErrorKind::io, "cannot open a socket", "", std::strerror(errno), ""};
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  const bool found = connect(fd, target.ai_addr, target.ai_addrlen) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0;
  const int error = errno;
  close(fd);
  if (!found) return Error{ErrorKind::network, "no route", "", std::strerror(error), ""};
  return numeric(reinterpret_cast<const sockaddr*>(&own), length);
}

using Interfaces = std::unique_ptr<ifaddrs, void (*)(ifaddrs*)>;

Result<Interfaces> list_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0)
    return Error{ErrorKind::io, "cannot list the interfaces", "", std::strerror(errno), ""};
  return Interfaces(list, freeifaddrs);
}

// As text, if others can use it: an IP address, but not a link-local one, which needs its interface.
Result<std::string> usable_address(const ifaddrs& entry) {
  const auto unusable = [](const char* why) {
    return Error{ErrorKind::not_found, "an address that cannot be used", "", why, ""};
  };
  if (!entry.ifa_addr) return unusable("it has no address");
  if (entry.ifa_addr->sa_family == AF_INET) return numeric(entry.ifa_addr, sizeof(sockaddr_in));
  if (entry.ifa_addr->sa_family != AF_INET6) return unusable("it is not an IP address");
  sockaddr_in6 address{};
  std::memcpy(&address, entry.ifa_addr, sizeof address);
  if (IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr)) return unusable("it is a link-local one");
  return numeric(entry.ifa_addr, sizeof address);
}

bool is_outer(const std::string& numeric_address) { return !is_loopback(numeric_address); }

// The first of each.
Addresses one_of_each_family(const Addresses& addresses) {
  Addresses result;
  for (const std::string& address : addresses) {
    const auto same = [&](const std::string& other) { return is_ipv6(other) == is_ipv6(address); };
    if (std::ranges::none_of(result, same)) result.push_back(address);
  }
  return result;
}

std::string names_of(const ifaddrs* list) {
  std::set<std::string> names;
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) names.emplace(entry->ifa_name);
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

NamedInterfaces named_interfaces() {
  for (const char* const variable : {"DLAUNCH_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}) {
    const char* const value = std::getenv(variable);
    if (!value || *value == '\0') continue;
    NamedInterfaces named{variable, {}};
    std::string text = value;
    for (char& c : text) c = c == ',' ? ' ' : c;
    std::istringstream names(text);
    for (std::string name; names >> name;) named.names.push_back(name);
    return named;
  }
  return {};
}

bool is_ipv6(const std::string& numeric_address) { return numeric_address.find(':') != std::string::npos; }

bool is_loopback(const std::string& numeric_address) {
  in_addr v4{};
  if (inet_pton(AF_INET, numeric_address.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, numeric_address.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

Result<Addresses> addresses_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  const char* const any_port = "9";  // nothing is sent to it
  if (const int failed = getaddrinfo(host.c_str(), any_port, &hints, &list); failed != 0) {
    return Error{ErrorKind::network, "cannot resolve", host, gai_strerror(failed), ""};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  Error last{ErrorKind::network, "no address", "", "the name has none", ""};
  Addresses found;
  for (const addrinfo* target = list; target; target = target->ai_next) {
    if (Result<std::string> source = source_for(*target)) {
      found.push_back(*std::move(source));
    } else {
      last = std::move(source).error();
    }
  }
  if (found.empty()) return std::move(last).with_where("to " + host);
  if (std::ranges::any_of(found, is_outer)) std::erase_if(found, is_loopback);
  return one_of_each_family(found);
}

Result<Addresses> first_outer_addresses() {
  const Result<Interfaces> interfaces = list_interfaces();
  if (!interfaces) return interfaces.error();
  for (const ifaddrs* entry = interfaces->get(); entry; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_UP) == 0 || (entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
    if (Result<Addresses> addresses = addresses_of_interface(entry->ifa_name, {})) return addresses;
  }
  return Error{ErrorKind::network, "this machine has no address", "", "only the loopback interface is up",
               ""};
}

Result<Addresses> addresses_of_interface(const std::string& name, const Addresses& preferred) {
  const Result<Interfaces> interfaces = list_interfaces();
  if (!interfaces) return interfaces.error();
  const auto refused = [&name](std::string why) {
    return Error{ErrorKind::network, "cannot use the network interface", "'" + name + "'", std::move(why),
                 ""};
  };
  bool exists = false;
  bool is_up = false;
  Addresses addresses;
  for (const ifaddrs* entry = interfaces->get(); entry; entry = entry->ifa_next) {
    if (name != entry->ifa_name) continue;
    exists = true;
    is_up |= (entry->ifa_flags & IFF_UP) != 0;
    if (Result<std::string> address = usable_address(*entry)) addresses.push_back(*std::move(address));
  }
  if (!exists) {
    return refused("this machine has no interface of that name; it has " + names_of(interfaces->get()));
  }
  if (!is_up) return refused("it is down");
  if (addresses.empty()) return refused("it has no address that other machines could reach");
  const auto is_preferred = [&preferred](const std::string& address) {
    return std::ranges::find(preferred, address) != preferred.end();
  };
  const bool prefers_ipv6 = !preferred.empty() && is_ipv6(preferred.front());
  std::stable_sort(addresses.begin(), addresses.end(), [&](const std::string& a, const std::string& b) {
    if (is_ipv6(a) != is_ipv6(b)) return is_ipv6(a) == prefers_ipv6;
    return is_preferred(a) && !is_preferred(b);
  });
  return one_of_each_family(addresses);
}

std::string probable_address(const std::string& master_host) {
  const NamedInterfaces named = named_interfaces();
  Result<Addresses> towards = !master_host.empty() ? addresses_towards(master_host) : first_outer_addresses();
  if (!named.names.empty()) {
    towards = addresses_of_interface(named.names.front(), towards ? *towards : Addresses());
  }
  return towards ? towards->front() : "127.0.0.1";
}

}  // namespace dlaunch::internal
