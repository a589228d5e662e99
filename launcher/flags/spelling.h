// The nearest right word for a mistyped one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dlaunch::launcher {

// The word with the smallest edit distance (insert, delete, replace, swap neighbours) that is at most a third
// of its length. Empty: none is near enough.
std::string nearest(std::string_view typed, const std::vector<std::string>& words);

// The words that `typed` may mean: the nearest one, else those that end with it after a dash ("rank":
// node-rank), else those that begin with it, with or without its last letter ("nprocs").
std::vector<std::string> likely(std::string_view typed, const std::vector<std::string>& words);

}  // namespace dlaunch::launcher
