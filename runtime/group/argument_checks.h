// What the arguments of a group's operations must be. Each check throws DistError with the rank, the
// operation and the group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "dlaunch/reduce_op.h"
#include "dlaunch/tensor.h"
#include "runtime/base/short_array.h"
#include "runtime/group/group_description.h"

namespace dlaunch::internal {

[[noreturn]] void reject(const GroupDescription& group, const char* operation, const std::string& reason);

void require_member(const GroupDescription& group, const char* operation);
// `role`: for the message: "src".
void require_rank(const GroupDescription& group, const char* operation, const char* role, int rank);
[[noreturn]] void reject_read_only(const GroupDescription& group, const char* operation);
inline void require_writable(const GroupDescription& group, const char* operation, const Tensor& tensor) {
  if (tensor.read_only() && tensor.numel() > 0) reject_read_only(group, operation);
}
// The same dtype on the same device.
void require_same_kind(const GroupDescription& group, const char* operation, const Tensor& output,
                       const Tensor& input);
void require_one_kind(const GroupDescription& group, const char* operation, std::span<const Tensor> tensors);
void require_allowed_of(const GroupDescription& group, const char* operation, DType dtype, ReduceOp op);
inline void require_allowed(const GroupDescription& group, const char* operation, const Tensor& tensor,
                            ReduceOp op) {
  if (op != ReduceOp::sum) require_allowed_of(group, operation, tensor.dtype(), op);
}
void require_one_per_rank(const GroupDescription& group, const char* operation, const char* role,
                          std::size_t count);
// `whole` consists of one part for each rank.
void require_whole(const GroupDescription& group, const char* operation, const Tensor& whole,
                   const char* whole_role, const Tensor& part);
// No output shares memory with another one or with an input.
void require_disjoint(const GroupDescription& group, const char* operation, std::span<const Tensor> outputs,
                      std::span<const Tensor> inputs);
// The same, but the input may be this rank's own output.
void require_disjoint_gather(const GroupDescription& group, const char* operation,
                             std::span<const Tensor> outputs, const Tensor& input);
// A send to, or a receive from, `peer`.
void require_message(const GroupDescription& group, const char* operation, const Tensor& tensor, int peer,
                     bool receives);

// The tensor cut along its first dimension, one part for each rank. No splits: equal parts.
ShortArray<Tensor> split_rows(const GroupDescription& group, const char* operation, const char* role,
                              const Tensor& tensor, std::span<const std::int64_t> splits);

// "6 elements"
std::string elements(const Tensor& tensor);

}  // namespace dlaunch::internal
