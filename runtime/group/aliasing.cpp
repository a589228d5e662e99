#include "runtime/group/aliasing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/base/short_array.h"

namespace dlaunch::internal {

namespace {

struct Stretch {
  std::uintptr_t begin;
  std::uintptr_t end;
};

Stretch stretch_of(const Tensor& tensor) {
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data());
  return {begin, begin + tensor.nbytes()};
}

// An empty one overlaps with none.
bool overlap(const Tensor& one, const Tensor& other) {
  const Stretch a = stretch_of(one);
  const Stretch b = stretch_of(other);
  return std::max(a.begin, b.begin) < std::min(a.end, b.end);
}

// Each with each: for a few that takes less than to sort them.
bool few_alias(std::span<const Tensor> written, std::span<const Tensor> read) {
  for (std::size_t i = 0; i < written.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (overlap(written[i], written[k])) return true;
    }
    for (const Tensor& tensor : read) {
      if (overlap(written[i], tensor)) return true;
    }
  }
  return false;
}

}  // namespace

bool aliases(std::span<const Tensor> written, std::span<const Tensor> read) {
  constexpr std::size_t few = 4;
  if (written.size() <= few && read.size() <= few) return few_alias(written, read);
  ShortArray<Stretch, 16> all(written.size(), [&](std::size_t i) { return stretch_of(written[i]); });
  const auto is_empty = [](const Stretch& one) { return one.begin == one.end; };
  const std::span<Stretch> taken(all.begin(), std::remove_if(all.begin(), all.end(), is_empty));
  std::ranges::sort(taken, {}, &Stretch::begin);
  for (std::size_t i = 1; i < taken.size(); ++i) {
    if (taken[i].begin < taken[i - 1].end) return true;
  }
  // They are sorted and disjoint, so the first that ends behind the beginning is the only candidate.
  return std::ranges::any_of(read, [taken](const Tensor& tensor) {
    if (tensor.nbytes() == 0) return false;
    const Stretch wanted = stretch_of(tensor);
    const auto next = std::ranges::upper_bound(taken, wanted.begin, {}, &Stretch::end);
    return next != taken.end() && next->begin < wanted.end;
  });
}

}  // namespace dlaunch::internal
