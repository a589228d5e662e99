// The arguments of PyTorch's calls, checked.
#pragma once

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "tensors.h"

namespace dlaunch::torch {

using Tensors = std::vector<at::Tensor>;

// A reduction, and the factor of a premultiplied sum.
struct Reduction {
  explicit Reduction(const c10d::ReduceOp& given) {
    const auto kind = static_cast<c10d::ReduceOp::RedOpType>(given);
    if (kind == c10d::ReduceOp::PREMUL_SUM) {
      const auto* const premultiplied =
          dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(given.supplement_.get());
      if (premultiplied == nullptr) C10_THROW_ERROR(ValueError, "a premultiplied sum has no factor");
      factor = premultiplied->tensor_factor.defined() ? premultiplied->tensor_factor.item<double>()
                                                      : premultiplied->double_factor;
    } else if (kind > c10d::ReduceOp::BXOR) {
      C10_THROW_ERROR(ValueError, "backend dlaunch does not support this reduction");
    } else {
      op = static_cast<int>(kind);  // PyTorch's first eight have dlaunch's numbers
    }
  }
  int op = DLAUNCH_SUM;
  std::optional<double> factor;
};

inline const at::Tensor& one(const Tensors& tensors) {
  if (tensors.size() != 1)
    C10_THROW_ERROR(ValueError,
                    "backend dlaunch takes one tensor a rank, not " + std::to_string(tensors.size()));
  return tensors[0];
}

inline const Tensors& one_list(const std::vector<Tensors>& lists) {
  if (lists.size() != 1)
    C10_THROW_ERROR(ValueError,
                    "backend dlaunch takes one list of tensors a rank, not " + std::to_string(lists.size()));
  return lists[0];
}

inline bool have_one_dtype(const Tensors& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) {
    return tensor.scalar_type() == tensors[0].scalar_type();
  });
}

// Rows as elements (or bytes), as the tensors are described; empty: equal parts.
inline std::vector<int64_t> elements(const at::Tensor& tensor, const std::vector<int64_t>& splits,
                                     int ranks) {
  const int64_t rows = tensor.dim() > 0 ? tensor.size(0) : 0;
  if (splits.empty()) {
    if (rows % ranks != 0)
      C10_THROW_ERROR(ValueError, "the first dimension of a tensor, " + std::to_string(rows) +
                                      ", is not divisible by the " + std::to_string(ranks) + " ranks");
    return {};
  }
  if (splits.size() != static_cast<std::size_t>(ranks))
    C10_THROW_ERROR(ValueError,
                    std::to_string(splits.size()) + " split sizes for " + std::to_string(ranks) + " ranks");
  const int64_t sum = std::accumulate(splits.begin(), splits.end(), int64_t{0});
  if (sum != rows)
    C10_THROW_ERROR(ValueError, "the split sizes have a sum of " + std::to_string(sum) +
                                    ", but the first dimension is " + std::to_string(rows));
  int64_t row = rows > 0 ? tensor.numel() / rows : 0;
  if (!dtype_of(tensor.scalar_type())) row *= tensor.element_size();
  std::vector<int64_t> counts;
  for (const int64_t split : splits) counts.push_back(split * row);
  return counts;
}

}  // namespace dlaunch::torch
