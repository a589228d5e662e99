// Addresses and errors of libuv and the sockets, in the terms of io.h.
#pragma once

#include <netdb.h>
#include <sys/socket.h>
#include <uv.h>

#include <cstdint>
#include <string>
#include <vector>

#include "store/base/io.h"

namespace dlaunch::store {

CloseKind close_kind(int status);
// The reason of a libuv status, for a sentence.
std::string describe(int status);
// Why an attempt to connect failed, and in brackets what that means and what to check.
std::string connect_failure(int status, const std::string& why);

Address to_address(const sockaddr* raw);
void set_port(sockaddr_storage& address, std::uint16_t port);
// False: it is a name.
bool parse_numeric(const Address& address, sockaddr_storage& into);

// Looks up the addresses that TCP can use, and holds the result.
addrinfo stream_hints(int flags);
std::vector<sockaddr_storage> to_list(const addrinfo* found, std::uint16_t port);

// A connect to a free local port can connect to itself: TCP allows both ends to be one socket.
bool met_itself(const uv_tcp_t& tcp);

Address bound_address(const uv_tcp_t& tcp);

inline const sockaddr* raw(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

}  // namespace dlaunch::store
