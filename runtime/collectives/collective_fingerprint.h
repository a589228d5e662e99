// What the ranks must agree on about one call of a collective.
#pragma once

#include <cstdint>
#include <string>

#include "dlaunch/reduce_op.h"
#include "dlaunch/tensor.h"

namespace dlaunch::internal {

enum class CollectiveKind : std::uint8_t {
  all_reduce = 1,
  broadcast,
  all_gather,
  barrier,
  reduce,
  gather,
  scatter,
  reduce_scatter,
  all_to_all,
  all_reduce_coalesced,
};

// A premul_sum's factor is not part of it: each rank may have its own.
struct CollectiveFingerprint {
  CollectiveKind kind = CollectiveKind::barrier;
  DType dtype = DType::uint8;
  ReduceOp op = ReduceOp::sum;  // of a reduction
  std::int32_t root = -1;       // broadcast, scatter: the source; reduce, gather: the destination
  // Elements. all_gather, reduce_scatter, all_reduce_coalesced: the sum over all ranks' parts, or all
  // tensors. gather, scatter: one rank's part. all_to_all: 0, since each pair has its own sizes.
  std::uint64_t count = 0;
  std::uint64_t layout = 0;  // if count is a sum: a hash of the single sizes

  bool operator==(const CollectiveFingerprint&) const = default;
};

// "all_reduce(1000 x float32, sum)"
std::string to_string(const CollectiveFingerprint& fingerprint);

// Begins describe_difference().
inline constexpr const char* calls_differ = "the ranks call different operations: ";

// Why two ranks' calls do not fit, for an error of this rank. REQUIRES: they differ.
std::string describe_difference(int peer, const CollectiveFingerprint& theirs,
                                const CollectiveFingerprint& ours);

}  // namespace dlaunch::internal
