#include "launcher/machine/local_addresses.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>

#include <memory>

namespace dlaunch::launcher {

std::string numeric(const sockaddr* address) {
  if (address == nullptr || (address->sa_family != AF_INET && address->sa_family != AF_INET6)) return "";
  char host[NI_MAXHOST] = "";
  const socklen_t size = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  getnameinfo(address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return host;
}

std::set<std::string> local_addresses() {
  std::set<std::string> own;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return own;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(first, freeifaddrs);
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (std::string address = numeric(one->ifa_addr); !address.empty()) own.insert(std::move(address));
  }
  return own;
}

}  // namespace dlaunch::launcher
