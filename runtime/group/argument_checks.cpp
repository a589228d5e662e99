#include "runtime/group/argument_checks.h"

#include "dlaunch/error.h"
#include "runtime/group/aliasing.h"
#include "runtime/group/tensor_parts.h"
#include "runtime/reduce/reduce.h"

namespace dlaunch::internal {

std::string elements(const Tensor& tensor) { return std::to_string(tensor.numel()) + " elements"; }

void reject(const GroupDescription& group, const char* operation, const std::string& reason) {
  throw DistError(reason, {.rank = group.rank, .operation = operation, .group = group.name});
}

void require_member(const GroupDescription& group, const char* operation) {
  if (group.rank < 0) reject(group, operation, "this process is not a member of the group");
}

void require_rank(const GroupDescription& group, const char* operation, const char* role, int rank) {
  require_member(group, operation);
  if (rank >= 0 && rank < group.size) return;
  reject(group, operation,
         std::string(role) + " " + std::to_string(rank) + " is out of range for a group of " +
             std::to_string(group.size) + " ranks");
}

void reject_read_only(const GroupDescription& group, const char* operation) {
  reject(group, operation, "the tensor to write to is a view of const memory");
}

void require_same_kind(const GroupDescription& group, const char* operation, const Tensor& output,
                       const Tensor& input) {
  if (output.dtype() != input.dtype() || output.device() != input.device()) {
    reject(group, operation,
           "output and input differ in dtype or device: " + output.to_string() + " and " + input.to_string());
  }
}

void require_one_kind(const GroupDescription& group, const char* operation, std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    if (tensor.dtype() == tensors.front().dtype() && tensor.device() == tensors.front().device()) continue;
    reject(group, operation,
           "the tensors differ in dtype or device: " + tensors.front().to_string() + " and " +
               tensor.to_string());
  }
}

void require_allowed_of(const GroupDescription& group, const char* operation, DType dtype, ReduceOp op) {
  if (const auto why = why_not_allowed(dtype, op)) reject(group, operation, *why);
}

void require_one_per_rank(const GroupDescription& group, const char* operation, const char* role,
                          std::size_t count) {
  if (count == static_cast<std::size_t>(group.size)) return;
  reject(group, operation,
         std::to_string(count) + " " + role + " for " + std::to_string(group.size) + " ranks");
}

// `whole` is one part for each rank.
void require_whole(const GroupDescription& group, const char* operation, const Tensor& whole,
                   const char* whole_role, const Tensor& part) {
  const std::size_t size = static_cast<std::size_t>(group.size);
  if (whole.numel() == size * part.numel()) return;
  reject(group, operation,
         "the " + std::string(whole_role) + " has " + elements(whole) + "; " + std::to_string(size) +
             " ranks with " + std::to_string(part.numel()) + " each need " +
             std::to_string(size * part.numel()));
}

void require_disjoint(const GroupDescription& group, const char* operation, std::span<const Tensor> outputs,
                      std::span<const Tensor> inputs) {
  if (aliases(outputs, inputs))
    reject(group, operation, "an output shares memory with another one or with an input");
}

// The input may be the own output.
void require_disjoint_gather(const GroupDescription& group, const char* operation,
                             std::span<const Tensor> outputs, const Tensor& input) {
  const bool in_place = input.data() == outputs[static_cast<std::size_t>(group.rank)].data();
  require_disjoint(group, operation, outputs, in_place ? std::span<const Tensor>() : std::span(&input, 1));
}

// The tensor cut along its first dimension. No splits: one equal part for each rank.
ShortArray<Tensor> split_rows(const GroupDescription& group, const char* operation, const char* role,
                              const Tensor& tensor, std::span<const std::int64_t> splits) {
  const std::size_t size = static_cast<std::size_t>(group.size);
  if (tensor.shape().empty()) reject(group, operation, "a tensor without dimensions cannot be split");
  const std::int64_t all_rows = tensor.shape().front();
  if (splits.empty()) {
    if (all_rows % group.size != 0) {
      reject(group, operation,
             "the " + std::string(role) + "'s " + std::to_string(all_rows) +
                 " rows cannot be divided among " + std::to_string(size) + " ranks");
    }
    return equal_parts(tensor, size);
  }
  require_one_per_rank(group, operation, "splits", splits.size());
  std::int64_t sum = 0;
  for (const std::int64_t split : splits) {
    if (split < 0 || split > all_rows - sum) {
      reject(
          group, operation,
          "the " + std::string(role) + " splits do not add up to its " + std::to_string(all_rows) + " rows");
    }
    sum += split;
  }
  if (sum != all_rows) {
    reject(group, operation,
           "the " + std::string(role) + " splits add up to " + std::to_string(sum) + ", not to its " +
               std::to_string(all_rows) + " rows");
  }
  const std::size_t row = all_rows == 0 ? 0 : tensor.numel() / static_cast<std::size_t>(all_rows);
  std::size_t end = 0;
  return {splits.size(), [&](std::size_t i) {
            const std::size_t count = static_cast<std::size_t>(splits[i]) * row;
            end += count;
            return slice(tensor, end - count, count);
          }};
}

void require_message(const GroupDescription& group, const char* operation, const Tensor& tensor, int peer,
                     bool receives) {
  if (!receives || peer != any_source) require_rank(group, operation, receives ? "src" : "dst", peer);
  if (receives) require_writable(group, operation, tensor);
}

}  // namespace dlaunch::internal
