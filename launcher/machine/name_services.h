// What a statically linked program has to know of the machine's name services
// (launcher/machine/static_names.cpp).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dlaunch::launcher {

// `configuration`: the text of nsswitch.conf(5). True: it has `database` ("hosts") looked up elsewhere than
// in files and DNS, which is all that the C library has built in.
bool needs_modules(std::string_view configuration, std::string_view database);

// The addresses in what `getent ahosts NAME` prints, each once, in its order.
std::vector<std::string> addresses_in(std::string_view printed);

}  // namespace dlaunch::launcher
