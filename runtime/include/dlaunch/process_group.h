// A group of ranks and the collectives over it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "dlaunch/export.h"
#include "dlaunch/reduce_op.h"
#include "dlaunch/tensor.h"
#include "dlaunch/work.h"

namespace dlaunch {
inline namespace v1 {

class GroupImpl;

struct OperationOptions {
  // false: the call returns when the operation has completed, and throws if it failed.
  // true: the call returns at once; the returned Work tells the rest. Operations of one group run one after
  // another in the order of the calls.
  bool async_op = false;
  // For the whole operation, from the call on. Absent: the group's.
  std::optional<std::chrono::milliseconds> timeout;
  // For ReduceOp::premul_sum: what this rank's values are multiplied with.
  double premul_factor = 1.0;
};

// A handle; copies mean the same group. A default-made one means no group: all calls but bool throw.
//
// Collectives: every rank of the group calls the same ones in the same order, with the same dtype,
// number of elements, reduction and source rank. The first message between two ranks carries what
// they call; who gets one that does not fit throws DistNetworkError saying how the calls differ, and
// so does every other rank. (Not every mistake can be seen this way: where each of two ranks takes
// itself for the source of a broadcast, neither expects a message, and the deadline ends the call.) A
// call with a wrong argument throws DistError before anything is sent and does not count as a call.
// Zero elements are allowed everywhere; such a call still meets the others.
//
// Errors: after the first DistNetworkError or DistBackendError the group is broken, on this rank and (by a
// message or by its closed connections) on the others; every later call throws at once and repeats that first
// cause. Destroy it; a new group can be made. What the tensors hold after an error is unspecified.
//
// Threads: all members may be called from several threads; calls take their turn in the order in which they
// got in, so ranks that call from several threads must order them themselves.
class DLAUNCH_EXPORT ProcessGroup {
 public:
  ProcessGroup() = default;
  explicit operator bool() const { return impl_ != nullptr; }

  [[nodiscard]] int rank() const;  // of this process, 0 .. size()-1
  [[nodiscard]] int size() const;  // ranks in the group
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] const std::string& backend() const;  // "gloo"; "cpu:gloo,cuda:nccl" if there are several
  [[nodiscard]] std::chrono::milliseconds timeout() const;

  // Every rank's `tensor` becomes the reduction of all of them: the same bits
  // everywhere, whatever the timing.
  Work all_reduce(const Tensor& tensor, ReduceOp op = ReduceOp::sum,
                  const OperationOptions& options = {}) const;

  // Every rank's `tensor` becomes that of rank `src`.
  Work broadcast(const Tensor& tensor, int src, const OperationOptions& options = {}) const;

  // outputs[i] becomes rank i's `input`. The outputs may differ in size; all ranks give the same sizes, and
  // `input` has as many elements as outputs[rank()] (it may be that very memory).
  Work all_gather(std::span<const Tensor> outputs, const Tensor& input,
                  const OperationOptions& options = {}) const;

  // The same into one tensor of size() times the elements of `input`, in rank order.
  Work all_gather_into_tensor(const Tensor& output, const Tensor& input,
                              const OperationOptions& options = {}) const;

  // Returns when every rank has called it.
  Work barrier(const OperationOptions& options = {}) const;

  // Ends all operations of the group on this rank with an error that carries
  // `reason`, and breaks it for all others. Does not block.
  void abort(const std::string& reason) const;

 private:
  friend class GroupImpl;
  explicit ProcessGroup(std::shared_ptr<GroupImpl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<GroupImpl> impl_;
};

}  // namespace v1
}  // namespace dlaunch
