// What the module store_server.so exports: a store server on a thread of its own, for a worker that must
// serve the store itself. The runtime loads it; it is no part of libdlaunch.so, which would bring libuv with
// it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dlaunch {

// Serves at host:port until the process ends; on all interfaces where `host` is a name that only means the
// loopback one, other than localhost. Returns a handle, or null and the reason in `why`, cut off at
// `size` bytes.
using StoreServerStart = void* (*)(const char* host, std::uint16_t port, char* why, std::size_t size);

inline constexpr const char* store_server_symbol = "dlaunch_store_server_start";

}  // namespace dlaunch
