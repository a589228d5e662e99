// How the parameters of a unit are divided among the ranks: they lie one after another, and each rank keeps
// an equal part. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dlaunch::internal {

// In elements.
struct ShardLayout {
  std::vector<std::size_t> offsets;  // by parameter
  std::size_t elements = 0;          // of all parameters
  std::size_t shard = 0;             // of each rank; what goes beyond `elements` is padding

  bool operator==(const ShardLayout&) const = default;
};

// `sizes`: by parameter. REQUIRES: ranks > 0.
ShardLayout shard_layout(std::span<const std::size_t> sizes, std::size_t ranks);

// The unit that a parameter is part of: the innermost of the modules with these names that contains it.
// Names are as "block.0.weight". None: no unit contains it.
std::optional<std::size_t> unit_of(std::string_view parameter, std::span<const std::string> units);

}  // namespace dlaunch::internal
