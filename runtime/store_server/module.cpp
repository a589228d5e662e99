// The module store_server.so: see runtime/store_server/store_server.h.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "runtime/store_server/store_server.h"
#include "store/store_host.h"

extern "C" __attribute__((visibility("default"))) void* dlaunch_store_server_start(const char* host,
                                                                                   std::uint16_t port,
                                                                                   char* why,
                                                                                   std::size_t size) {
  auto started = dlaunch::StoreHost::start({host, port});
  if (started) return std::move(*started).release();
  const std::string reason = started.error().message();
  const std::size_t length = std::min(reason.size(), size - 1);
  std::memcpy(why, reason.data(), length);
  why[length] = '\0';
  return nullptr;
}

static_assert(std::is_same_v<decltype(&dlaunch_store_server_start), dlaunch::StoreServerStart>);
