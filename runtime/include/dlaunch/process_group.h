// A group of ranks and the collectives over it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/export.h"
#include "dlaunch/reduce_op.h"
#include "dlaunch/shared_memory.h"
#include "dlaunch/tensor.h"
#include "dlaunch/work.h"

namespace dlaunch {
namespace internal {
class GroupImpl;
}
inline namespace v1 {

struct OperationOptions {
  // false: the call returns when the operation has completed, and throws if it failed.
  // true: the call returns at once; the returned Work reports the result. Operations of one group run one
  // after another in the order of the calls.
  bool async_op = false;
  // For the whole operation, from the call on. Absent: the group's.
  std::optional<std::chrono::milliseconds> timeout;
  // For ReduceOp::premul_sum: what this rank's values are multiplied with.
  double premul_factor = 1.0;
};

// For send and recv.
struct MessageOptions {
  // Only messages with this tag are received.
  std::uint32_t tag = 0;
  // From the call on. Absent: the group's.
  std::optional<std::chrono::milliseconds> timeout;
};

struct P2POp;

// A handle; copies refer to the same group. A default-constructed handle is empty: all calls but bool throw.
// All ranks in the calls below are ranks in the group.
//
// Collectives: every rank of the group calls the same ones in the same order, with the same dtype,
// number of elements, reduction and root. The first message between two ranks carries the call's fingerprint,
// and a rank that waits for a peer sends it to that peer after a moment. A rank that receives another
// fingerprint than its own throws DistNetworkError that shows how the calls differ, and so does every other
// rank. (Not every mistake is found this way: if two ranks both call a short broadcast or scatter as its
// source, neither waits for a message, and all may return with different data; the next operation in which
// the two exchange a message fails. DebugLevel::detail finds it.) A call with a wrong argument throws
// DistError before anything is sent and does not count as a call. Outputs of all_gather, all_to_all and their
// variants must not overlap each other or an input. Zero elements are allowed everywhere; such a call still
// synchronizes with the other ranks.
//
// Point to point: a message is received by the first call of recv or irecv on its destination that names its
// source (or any_source) and its tag; messages of one source with one tag in the order in which they were
// sent. dtype and number of elements must be the sender's; otherwise the receiver throws DistNetworkError
// that names what was received. A send may return before the receive is called. A rank may send to itself.
// Messages do not wait for collectives, and are not ordered with them.
//
// A process that is not a member may call collectives and messages too, so that all ranks can run the same
// lines. Its call does nothing: arguments are not checked, tensors stay as they are, the Work has succeeded,
// recv() returns -1, monitored_barrier() returns. The first such call logs a warning. set_timeout(),
// breakpoint() and abort() throw DistError in such a process.
//
// Errors: after the first DistNetworkError or DistBackendError the group is broken, on this rank and (by a
// message or by its closed connections) on the others; every later call throws at once and repeats that first
// cause with its context(). Destroy it; a new group can be made. What the tensors hold after an error is
// unspecified.
//
// Threads: all members may be called from several threads. Collectives run in the order of their calls, and a
// synchronous one blocks later ones until it has completed, so a rank that calls from several threads must
// order the calls itself. Point-to-point calls, abort() and the queries do not wait for collectives.
class DLAUNCH_EXPORT ProcessGroup {
 public:
  ProcessGroup() = default;
  explicit operator bool() const { return impl_ != nullptr; }
  bool operator==(const ProcessGroup&) const = default;  // the same group

  [[nodiscard]] int rank() const;  // of this process, 0 .. size()-1; -1: it is not a member
  [[nodiscard]] int size() const;  // ranks in the group
  [[nodiscard]] const std::vector<int>& ranks() const;  // of the members in the default group, by rank here
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] const std::string& backend() const;  // "gloo"; "cpu:gloo,cuda:nccl" if there are several
  [[nodiscard]] std::chrono::milliseconds timeout() const;
  // For the operations that are called from now on, on this rank. DistError unless it is longer than 0.
  void set_timeout(std::chrono::milliseconds timeout) const;

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

  // Returns when every rank has called it. With `device_ids` the backend of these CUDA devices makes it;
  // DistBackendError if the group has none.
  Work barrier(const OperationOptions& options = {}, std::span<const int> device_ids = {}) const;

  // The `tensor` of rank `dst` becomes the reduction of all ranks'; those of the others stay as they are.
  Work reduce(const Tensor& tensor, int dst, ReduceOp op = ReduceOp::sum,
              const OperationOptions& options = {}) const;

  // At rank `dst` outputs[i] becomes rank i's `input`; the other ranks give no outputs. All have one size.
  Work gather(std::span<const Tensor> outputs, const Tensor& input, int dst,
              const OperationOptions& options = {}) const;

  // Every rank's `output` becomes inputs[rank()] of rank `src`; the others give no inputs. All have one size.
  Work scatter(const Tensor& output, std::span<const Tensor> inputs, int src,
               const OperationOptions& options = {}) const;

  // `output` becomes the reduction of every rank's inputs[rank()]. The inputs may differ in size; all ranks
  // give the same sizes. They stay as they are, but `output` may be inputs[rank()].
  Work reduce_scatter(const Tensor& output, std::span<const Tensor> inputs, ReduceOp op = ReduceOp::sum,
                      const OperationOptions& options = {}) const;

  // The same from one tensor of size() times the elements of `output`, in rank order.
  Work reduce_scatter_tensor(const Tensor& output, const Tensor& input, ReduceOp op = ReduceOp::sum,
                             const OperationOptions& options = {}) const;

  // outputs[i] becomes rank i's inputs[rank()]. Each pair of ranks has a size of its own, on which the two
  // agree. Outputs and inputs share no memory.
  Work all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                  const OperationOptions& options = {}) const;

  // The same with one tensor each, cut along the first dimension: input_splits[i] rows go to rank i,
  // output_splits[i] come from it. No splits: size() equal parts.
  Work all_to_all_single(const Tensor& output, const Tensor& input,
                         std::span<const std::int64_t> output_splits = {},
                         std::span<const std::int64_t> input_splits = {},
                         const OperationOptions& options = {}) const;

  // As many calls, in one: all tensors of one dtype, all ranks with the same sizes. See also Coalescing.
  Work all_reduce_coalesced(std::span<const Tensor> tensors, ReduceOp op = ReduceOp::sum,
                            const OperationOptions& options = {}) const;
  Work all_gather_into_tensor_coalesced(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                                        const OperationOptions& options = {}) const;
  Work reduce_scatter_tensor_coalesced(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                                       ReduceOp op = ReduceOp::sum,
                                       const OperationOptions& options = {}) const;

  void send(const Tensor& tensor, int dst, const MessageOptions& options = {}) const;
  // Returns the rank that sent the message. `src` may be any_source.
  int recv(const Tensor& tensor, int src, const MessageOptions& options = {}) const;
  // These return at once; the Work of irecv knows its source_rank() when it has completed.
  Work isend(const Tensor& tensor, int dst, const MessageOptions& options = {}) const;
  Work irecv(const Tensor& tensor, int src, const MessageOptions& options = {}) const;
  // Starts all of them; nothing is started if one of them is wrong. One Work for each, in their order. The
  // peer of an operation with a group of its own is a rank in that group.
  std::vector<Work> batch_isend_irecv(std::span<const P2POp> ops) const;

  // As barrier, but names missing ranks: rank 0 throws DistNetworkError that names the first rank (or, with
  // `wait_all_ranks`, all) that did not call before the timeout, and the others throw the same. The call uses
  // the store; a missing rank does not break the group, and calls are not numbered: a rank that is too late
  // waits for the others' next call (but see DebugLevel::detail).
  void monitored_barrier(std::optional<std::chrono::milliseconds> timeout = {},
                         bool wait_all_ranks = false) const;

  // Zeros, aligned for every dtype; whole pages are taken. If the group's backend cannot share memory (ranks
  // on other hosts only, DLAUNCH_SHM=0, no room: 16 GiB a rank and 256 GiB a group), or this process is not a
  // member, it is ordinary memory, and a line of the log at the level info names the reason. Throws
  // DistBackendError if there is no memory, with the limit of the control group. Does not communicate.
  [[nodiscard]] SharedMemory allocate_shared(std::size_t bytes) const;

  // See dlaunch::breakpoint().
  void breakpoint(int rank) const;

  // Ends all operations of the group on this rank with an error that carries
  // `reason`, and breaks it for all others. Does not block.
  void abort(const std::string& reason) const;

 private:
  friend class internal::GroupImpl;
  explicit ProcessGroup(std::shared_ptr<internal::GroupImpl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<internal::GroupImpl> impl_;
};

// One of the messages of batch_isend_irecv.
struct P2POp {
  enum class Kind : std::uint8_t { isend, irecv };
  Kind kind;
  Tensor tensor;
  int peer;  // irecv: may be any_source
  std::uint32_t tag = 0;
  ProcessGroup group = {};  // none: that of the call
};

// Several operations that are started together.
//
//   dlaunch::Coalescing together(group);
//   for (auto& gradient : gradients) together.all_reduce(dlaunch::Tensor::of(gradient));
//   together.end();
//
// The calls are only collected; end() starts all, or none if one of them is wrong. It starts all_reduce of
// one dtype and reduction as one operation. All ranks make the same calls in the same order. Used by one
// thread. Without end() nothing is started.
class DLAUNCH_EXPORT Coalescing {
 public:
  explicit Coalescing(ProcessGroup group) : group_(std::move(group)) {}

  void all_reduce(const Tensor& tensor, ReduceOp op = ReduceOp::sum);
  void all_gather_into_tensor(const Tensor& output, const Tensor& input);
  void reduce_scatter_tensor(const Tensor& output, const Tensor& input, ReduceOp op = ReduceOp::sum);

  // The Work completes with the last of the operations, or with the first error.
  Work end(const OperationOptions& options = {});

 private:
  struct Noted {
    enum class Kind : std::uint8_t { all_reduce, all_gather, reduce_scatter };
    Kind kind;
    Tensor output;  // all_reduce: the tensor
    Tensor input;
    ReduceOp op;
  };

  ProcessGroup group_;
  std::vector<Noted> noted_;
};

}  // namespace v1
}  // namespace dlaunch
