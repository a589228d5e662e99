// The innermost frames of a process's main thread, from what a debugger writes. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dlaunch::launcher {

// A line of a note has room for so many.
inline constexpr std::size_t shown_frames = 4;

// The innermost first: "all_reduce (distributed_c10d.py:3051)" of py-spy, "poll" of gdb. Of py-spy's threads
// MainThread, of gdb's the first. Empty: the text has none.
std::vector<std::string> frames_of_py_spy(std::string_view text);
std::vector<std::string> frames_of_gdb(std::string_view text);

}  // namespace dlaunch::launcher
