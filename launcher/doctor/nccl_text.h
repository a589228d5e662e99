// The version of NCCL by the bytes of its library, and where the loader would find it. Pure: nothing is
// loaded.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlaunch::launcher {

struct NcclVersion {
  int code = 0;      // 23203 for 2.32.3, as NCCL_VERSION_CODE
  std::string cuda;  // "13.4"; empty: it does not say
  bool operator==(const NcclVersion&) const = default;
};

// Of "NCCL version 2.32.3+cuda13.4", which the library prints with NCCL_DEBUG=VERSION. none: `bytes` have no
// such text, whole.
std::optional<NcclVersion> nccl_version_in(std::string_view bytes);

// "2.32.3".
std::string nccl_version_text(int code);

// The paths in /etc/ld.so.cache whose last part is `name`, in its order.
std::vector<std::string> cached_libraries(std::string_view cache, std::string_view name);

}  // namespace dlaunch::launcher
