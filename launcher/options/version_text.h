// What --version prints. Pure.
#pragma once

#include <string>
#include <string_view>

namespace dlaunch::launcher {

// "dlaunch 0.2.0 (commit abcdef123456)", and a newline. `commit`: empty if it is not known.
std::string version_text(std::string_view version, std::string_view commit);

}  // namespace dlaunch::launcher
