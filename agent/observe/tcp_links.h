// What the kernel knows of the TCP connections of this machine's network: its own view of each, which costs
// the processes that use them nothing.
#pragma once

#include <cstdint>
#include <map>

#include "agent/model/link_state.h"

namespace dlaunch::agent {

// By the inode of the socket, without peers. Only those that hold data which the other end has not got.
// Empty also if this kernel cannot be asked (NETLINK_SOCK_DIAG). Takes milliseconds if there are thousands.
std::map<std::uint64_t, LinkState> waiting_tcp_links();

}  // namespace dlaunch::agent
