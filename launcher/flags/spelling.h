// The nearest right word for a mistyped one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dlaunch::launcher {

// The word with the smallest edit distance (insert, delete, replace, swap neighbours) that is at most a third
// of its length; empty where none is near enough.
std::string nearest(std::string_view typed, const std::vector<std::string>& words);

// What may be meant by a word that is a part of some: the nearest one, else those that end in it behind a
// dash
// ("rank": node-rank), else those that begin with it, or with it but for its last letter ("nprocs").
std::vector<std::string> likely(std::string_view typed, const std::vector<std::string>& words);

}  // namespace dlaunch::launcher
