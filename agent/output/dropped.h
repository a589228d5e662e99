// Counts output that was lost.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dlaunch::agent {

// `lines`: those that are missing in whole or in part.
struct Dropped {
  std::uint64_t bytes = 0;
  std::uint64_t lines = 0;
  bool within_line = false;  // the last text added had no line end: the next one belongs to the same line

  void add(std::string_view text);
  void add(const Dropped& other);
  bool operator==(const Dropped&) const = default;
};

// "1 line (80 bytes)"
std::string describe(const Dropped& dropped);

}  // namespace dlaunch::agent
