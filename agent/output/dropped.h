// A count of output that went nowhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dlaunch::agent {

// `lines`: those that are missing in whole or in part.
struct Dropped {
  std::uint64_t bytes = 0;
  std::uint64_t lines = 0;
  bool within_line = false;  // what was added last ended no line: what comes next belongs to it

  void add(std::string_view text);
  void add(const Dropped& other);
  bool operator==(const Dropped&) const = default;
};

// "1 line (80 bytes)"
std::string describe(const Dropped& dropped);

}  // namespace dlaunch::agent
