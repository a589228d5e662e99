// A host and a port, as users type them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "store/base/result.h"

namespace dlaunch::store {

struct Address {
  std::string host;        // a name or a numeric address, IPv6 without brackets
  std::uint16_t port = 0;  // 0: choose a free port

  bool operator==(const Address&) const = default;
};

// "host:port", "[v6]:port".
std::string to_string(const Address& address);

// "localhost", or a numeric address that means the machine itself: 127.0.0.0/8, ::1. A name is not looked up.
bool is_loopback(const std::string& host);
bool are_loopback(std::span<const Address> all);  // each of them

// Accepts "host", "host:port", "[v6]", "[v6]:port". Without a port it takes `default_port`.
Result<Address> parse_address(std::string_view text, std::uint16_t default_port);

}  // namespace dlaunch::store
