// What the module store_server.so exports: a store server on a thread of its own, for a worker that must
// serve the store itself. The runtime loads it; it is no part of libdlaunch.so, which would bring libuv with
// it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dlaunch {

struct StoreServerPlace {
  const char* host;  // all interfaces where it is a name that only means the loopback one, but not localhost
  std::uint16_t port;  // 0: any that is free. Becomes the real one
  int socket;  // one that is bound, and belongs to the server from now on; -1: none, host and port count
};

// Serves at this place until the stop. Returns a handle, or null and the reason in `why`, cut off at `size`
// bytes. Any thread.
using StoreServerStart = void* (*)(StoreServerPlace* place, char* why, std::size_t size);

// Ends every connection and frees the port. Not in a forked copy of the process, which lacks the thread.
using StoreServerStop = void (*)(void* server);

inline constexpr const char* store_server_start_symbol = "dlaunch_store_server_start";
inline constexpr const char* store_server_stop_symbol = "dlaunch_store_server_stop";

}  // namespace dlaunch
