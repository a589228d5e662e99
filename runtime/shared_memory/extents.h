// Which parts of an address range are taken: the first that is long enough. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace dlaunch::internal {

class Extents {
 public:
  // The range is [begin, begin + size).
  Extents(std::size_t begin, std::size_t size);

  // The begin of `size` bytes that are taken now. None: no free part is so long. REQUIRES: size > 0.
  std::optional<std::size_t> take(std::size_t size);
  // REQUIRES: take() has returned `begin`, and it has not been given back since. Returns its size.
  std::size_t give_back(std::size_t begin);

 private:
  std::map<std::size_t, std::size_t> free_;   // size by begin; no two touch each other
  std::map<std::size_t, std::size_t> taken_;  // size by begin
};

}  // namespace dlaunch::internal
