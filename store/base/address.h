// A host and a port, as users type them.
#pragma once

#include <cstdint>
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

// Accepts "host", "host:port", "[v6]", "[v6]:port". Without a port it takes `default_port`.
Result<Address> parse_address(std::string_view text, std::uint16_t default_port);

}  // namespace dlaunch::store
