#include "runtime/group/aliasing.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

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

}  // namespace

bool aliases(std::span<const Tensor> written, std::span<const Tensor> read) {
  constexpr std::size_t few = 16;  // need no allocation
  std::array<Stretch, few> on_stack;
  std::vector<Stretch> on_heap(written.size() > few ? written.size() : 0);
  Stretch* const memory = on_heap.empty() ? on_stack.data() : on_heap.data();
  std::size_t count = 0;
  for (const Tensor& tensor : written) {
    if (tensor.nbytes() > 0) memory[count++] = stretch_of(tensor);
  }
  const std::span<Stretch> taken(memory, count);
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
