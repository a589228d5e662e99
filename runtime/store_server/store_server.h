// What the module store_server.so exports: a store server on a thread of its own, for a worker that must
// serve the store itself. The runtime loads it; it is not part of libdlaunch.so, which would then need libuv.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dlaunch::internal {

struct StoreServerPlace {
  const char* host;    // all interfaces if the name only means loopback and is not localhost
  std::uint16_t port;  // 0: any free port. Set to the real one
  int socket;          // a bound one, which then belongs to the server; -1: none, use host and port
};

// Serves at this address until the stop. Returns a handle, or null and the reason in `why`, cut off at `size`
// bytes. Any thread.
using StoreServerStart = void* (*)(StoreServerPlace* place, char* why, std::size_t size);

// Ends every connection and frees the port. Not in a forked child, which lacks the thread.
using StoreServerStop = void (*)(void* server);

inline constexpr const char* store_server_start_symbol = "dlaunch_store_server_start";
inline constexpr const char* store_server_stop_symbol = "dlaunch_store_server_stop";

}  // namespace dlaunch::internal
