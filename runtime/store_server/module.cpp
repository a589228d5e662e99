// The module store_server.so: see runtime/store_server/store_server.h.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "runtime/store_server/store_server.h"
#include "store/server/store_host.h"

namespace {

using namespace dlaunch::internal;

// A name that only this machine resolves to its loopback interface (Debian's /etc/hosts does so for the
// machine's own name) is useless to other machines: then the server binds all interfaces.
Result<std::unique_ptr<StoreHost>> serve(const Address& address) {
  auto host = StoreHost::start(address);
  if (!host || is_loopback(address.host) || !are_loopback((*host)->addresses())) return host;
  const std::uint16_t port = (*host)->port();
  host->reset();  // frees the port
  return StoreHost::start({"*", port});
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void* dlaunch_store_server_start(StoreServerPlace* place,
                                                                                   char* why,
                                                                                   std::size_t size) {
  auto started = place->socket >= 0 ? StoreHost::start_on(place->socket) : serve({place->host, place->port});
  if (started) {
    place->port = (*started)->port();
    return std::move(*started).release();
  }
  const std::string reason = started.error().message();
  const std::size_t length = std::min(reason.size(), size - 1);
  std::memcpy(why, reason.data(), length);
  why[length] = '\0';
  return nullptr;
}

extern "C" __attribute__((visibility("default"))) void dlaunch_store_server_stop(void* server) {
  delete static_cast<StoreHost*>(server);
}

static_assert(std::is_same_v<decltype(&dlaunch_store_server_start), StoreServerStart>);
static_assert(std::is_same_v<decltype(&dlaunch_store_server_stop), StoreServerStop>);
