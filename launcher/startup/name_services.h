// Parses the machine's name service configuration, for a statically linked program (static_names.cpp).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dlaunch::launcher {

// `configuration`: the text of nsswitch.conf(5). True: it looks up `database` ("hosts") in other services
// than files and DNS, the only ones built into the C library.
bool needs_modules(std::string_view configuration, std::string_view database);

// The addresses in the output of `getent ahosts NAME`, without duplicates, in its order.
std::vector<std::string> addresses_in(std::string_view printed);

}  // namespace dlaunch::launcher
