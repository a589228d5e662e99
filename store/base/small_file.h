// Reads a file of the kernel or of another program: never more than the limit, and never blocking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "store/base/namespaces.h"

namespace dlaunch::store {

struct SmallFile {
  std::string text;
  std::int64_t written_ns = 0;  // time of the last change, since 1970
  bool truncated = false;       // the file is longer than the limit
};

// None: no such file, no permission, or not a plain file (a link, a pipe, a device).
std::optional<SmallFile> read_plain_file(const std::string& path, std::size_t most);

}  // namespace dlaunch::store
