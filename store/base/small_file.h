// Reads a file of the kernel's or another program's: never more than was allowed, never blocking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace dlaunch::agent {

struct SmallFile {
  std::string text;
  std::int64_t written_ns = 0;  // its last change, since 1970
  bool truncated = false;       // it is longer than was allowed
};

// None: there is no such file, it may not be read, or it is no plain file (a link, a pipe, a device).
std::optional<SmallFile> read_plain_file(const std::string& path, std::size_t most);

}  // namespace dlaunch::agent
