#include "launcher/remote/local_host.h"

#include <netdb.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <list>
#include <string_view>

#include "launcher/machine/machine.h"

namespace dlaunch::launcher {
namespace {

constexpr std::int64_t patience_s = 5;

// One request to the resolver, which writes into it.
struct LookUp {
  std::string name;
  addrinfo hints{};
  gaicb request{};
};

// Only an address of this machine's interfaces can be bound; all of 127.0.0.0/8 can.
bool can_be_bound(const sockaddr* address, socklen_t size) {
  const int probe = socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return false;
  const bool bound = bind(probe, address, size) == 0;
  close(probe);
  return bound;
}

bool is_own(const addrinfo* addresses) {
  for (const addrinfo* one = addresses; one != nullptr; one = one->ai_next) {
    if (can_be_bound(one->ai_addr, one->ai_addrlen)) return true;
  }
  return false;
}

std::string own_user() {
  const passwd* entry = getpwuid(geteuid());  // NOLINT(concurrency-mt-unsafe): one thread
  return entry ? entry->pw_name : "";
}

std::vector<bool> resolve_and_compare(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  // The resolver may write into a request after its deadline, so unanswered ones are never freed.
  auto& look_ups = *new std::list<LookUp>;
  std::vector<gaicb*> requests;
  for (const std::string& name : names) {
    LookUp& one = look_ups.emplace_back();
    one.name = name;
    one.hints.ai_socktype = SOCK_DGRAM;
    one.request.ar_name = one.name.c_str();
    one.request.ar_request = &one.hints;
    requests.push_back(&one.request);
  }
  std::vector<bool> own(names.size());
  if (getaddrinfo_a(GAI_NOWAIT, requests.data(), static_cast<int>(requests.size()), nullptr) != 0) return own;

  const std::time_t deadline = std::time(nullptr) + patience_s;
  bool all_answered = true;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    while (gai_error(requests[i]) == EAI_INPROGRESS) {
      const timespec left{std::max<std::time_t>(deadline - std::time(nullptr), 0), 1'000'000};
      const gaicb* const one[] = {requests[i]};
      if (gai_suspend(one, 1, &left) == EAI_AGAIN) break;
    }
    const bool answered = gai_error(requests[i]) != EAI_INPROGRESS;
    all_answered = all_answered && answered;
    if (!answered || gai_error(requests[i]) != 0) continue;
    own[i] = is_own(requests[i]->ar_result);
    freeaddrinfo(requests[i]->ar_result);
  }
  if (all_answered) delete &look_ups;
  return own;
}

}  // namespace

std::vector<bool> are_local_hosts(const std::vector<HostEntry>& hosts) {
  const std::string own_name = host_name();
  const std::string user = own_user();
  std::vector<bool> out(hosts.size());
  std::vector<std::string> unknown;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const std::string bare = bare_host(hosts[i].name);
    const std::string_view listed = hosts[i].name;
    const bool has_user = bare.size() < listed.size();
    if (has_user && listed.substr(0, listed.size() - bare.size() - 1) != user) continue;
    out[i] = bare == "localhost" || bare == own_name;
    if (out[i]) continue;
    unknown.push_back(bare);
    places.push_back(i);
  }
  const std::vector<bool> own = resolve_and_compare(unknown);
  for (std::size_t i = 0; i < own.size(); ++i) out[places[i]] = own[i];
  return out;
}

// Connecting a datagram socket only looks up the route; it sends nothing.
Result<std::string> local_address_towards(const std::vector<Address>& others) {
  for (const Address& other : others) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_DGRAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(other.host.c_str(), std::to_string(other.port).c_str(), &hints, &found) != 0) continue;
    std::string own;
    for (const addrinfo* one = found; one != nullptr && own.empty(); one = one->ai_next) {
      const int probe = socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      sockaddr_storage name{};
      socklen_t size = sizeof name;
      char text[NI_MAXHOST];
      if (probe >= 0 && connect(probe, one->ai_addr, one->ai_addrlen) == 0 &&
          getsockname(probe, reinterpret_cast<sockaddr*>(&name), &size) == 0 &&
          getnameinfo(reinterpret_cast<sockaddr*>(&name), size, text, sizeof text, nullptr, 0,
                      NI_NUMERICHOST) == 0)
        own = text;
      if (probe >= 0) close(probe);
    }
    freeaddrinfo(found);
    if (!own.empty()) return own;
  }
  return Error{ErrorKind::not_found, "no route to", to_string(others.front()), "",
               "check --rdzv-endpoint, or name this node's address with --local-addr"};
}

}  // namespace dlaunch::launcher
