// What one call of a collective is, as the ranks must agree on it.
#pragma once

#include <cstdint>
#include <string>

#include "dlaunch/reduce_op.h"
#include "dlaunch/tensor.h"

namespace dlaunch {

enum class CallKind : std::uint8_t { all_reduce = 1, broadcast, all_gather, barrier };

// A factor of premul_sum is not part of it: each rank may have its own.
struct Call {
  CallKind kind = CallKind::barrier;
  DType dtype = DType::uint8;
  ReduceOp op = ReduceOp::sum;  // all_reduce
  std::int32_t src = -1;        // broadcast
  std::uint64_t count = 0;      // elements; of all outputs together for all_gather
  std::uint64_t layout = 0;     // all_gather: a hash of the single outputs' sizes

  bool operator==(const Call&) const = default;
};

// "all_reduce(1000 x float32, sum)"
std::string to_string(const Call& call);

}  // namespace dlaunch
