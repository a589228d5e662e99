#include <algorithm>
#include <string>

#include "dlaunch/error.h"
#include "dlaunch/sampler.h"
#include "runtime/data_parallel/permutation.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {

namespace {

// 0.7 + 0.2 + 0.1 is a little more than 1.
constexpr double rounding = 1e-9;

void require_possible(std::size_t size, std::span<const double> fractions) {
  if (size >> 32U != 0)
    throw DistError("DataPartitioner: there are " + std::to_string(size) + " items; the limit is 2^32");
  double sum = 0;
  for (const double fraction : fractions) {
    // Also if it is not a number.
    if (!(fraction >= 0))
      throw DistError("DataPartitioner: " + std::to_string(fraction) + " is no part of the data");
    sum += fraction;
  }
  if (!(sum <= 1 + rounding))
    throw DistError("DataPartitioner: the fractions are " + std::to_string(sum) + " together, more than 1");
}

}  // namespace

DataPartitioner::DataPartitioner(std::size_t size, std::span<const double> fractions, std::uint64_t seed) {
  require_possible(size, fractions);
  order_ = python_permutation(size, seed);
  std::size_t end = 0;
  for (const double fraction : fractions) {
    const auto items = static_cast<std::size_t>(fraction * static_cast<double>(size));
    end += std::min(items, size - end);
    ends_.push_back(end);
  }
}

std::span<const std::size_t> DataPartitioner::use(std::size_t part) const {
  if (part >= ends_.size()) {
    throw DistError("DataPartitioner: there is no part " + std::to_string(part) + " of " +
                    std::to_string(ends_.size()));
  }
  const std::size_t begin = part > 0 ? ends_[part - 1] : 0;
  return std::span(order_).subspan(begin, ends_[part] - begin);
}

std::size_t DataPartitioner::parts() const { return ends_.size(); }

}  // namespace v1
}  // namespace dlaunch
