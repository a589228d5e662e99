#include "runtime/gradients/shard_layout.h"

namespace dlaunch::internal {

ShardLayout shard_layout(std::span<const std::size_t> sizes, std::size_t ranks) {
  ShardLayout layout;
  for (const std::size_t size : sizes) {
    layout.offsets.push_back(layout.elements);
    layout.elements += size;
  }
  layout.shard = (layout.elements + ranks - 1) / ranks;
  return layout;
}

std::optional<std::size_t> unit_of(std::string_view parameter, std::span<const std::string> units) {
  std::optional<std::size_t> innermost;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::string& unit = units[i];
    const bool contains = parameter.starts_with(unit) && parameter.substr(unit.size()).starts_with('.');
    if (contains && (!innermost || units[*innermost].size() < unit.size())) innermost = i;
  }
  return innermost;
}

}  // namespace dlaunch::internal
