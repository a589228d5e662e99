// What a user can try after an error of libdlaunch that a program has written. Pure.
#pragma once

#include <string>
#include <string_view>

namespace dlaunch::agent {

// `program`: the name under which it was started; `on_host`: " on host b", or empty. Empty: the last lines
// have no such error.
std::string remedy_of_library_error(std::string_view last_lines, const std::string& program,
                                    const std::string& on_host);

}  // namespace dlaunch::agent
