#include "runtime/shared_memory/extents.h"

#include <algorithm>
#include <iterator>

namespace dlaunch::internal {

Extents::Extents(std::size_t begin, std::size_t size) {
  if (size > 0) free_.emplace(begin, size);
}

std::optional<std::size_t> Extents::take(std::size_t size) {
  const auto found = std::ranges::find_if(free_, [&](const auto& part) { return part.second >= size; });
  if (found == free_.end()) return std::nullopt;
  const auto [begin, length] = *found;
  free_.erase(found);
  if (length > size) free_.emplace(begin + size, length - size);
  taken_.emplace(begin, size);
  return begin;
}

std::size_t Extents::give_back(std::size_t begin) {
  const auto taken = taken_.find(begin);
  const std::size_t size = taken->second;
  taken_.erase(taken);
  auto part = free_.emplace(begin, size).first;
  if (const auto next = std::next(part); next != free_.end() && begin + size == next->first) {
    part->second += next->second;
    free_.erase(next);
  }
  if (part != free_.begin()) {
    if (const auto before = std::prev(part); before->first + before->second == begin) {
      before->second += part->second;
      free_.erase(part);
    }
  }
  return size;
}

}  // namespace dlaunch::internal
