// The file that a program's error message names. Pure.
#pragma once

#include <string>
#include <string_view>

namespace dlaunch::agent {

// The path in the last message of this kind ("No such file or directory"): "cannot read /data/train: KIND",
// or, as Python writes it, "[Errno 2] KIND: '/data/train'". Empty: no message names one, or its path has a
// control character.
std::string path_in_error(std::string_view last_lines, std::string_view kind);

}  // namespace dlaunch::agent
