// The collectives and messages of dlaunch/distributed.h on tensors of LibTorch.
//
//   #include <dlaunch/torch/distributed.h>
//
//   at::Tensor sum = torch::ones({2, 3});
//   dlaunch::torch::all_reduce(sum);
//   dlaunch::torch::TensorWork work = dlaunch::torch::all_reduce(sum, dlaunch::ReduceOp::max, {{.async_op =
//   true}}); at::Tensor max = work.result().front();  // waits; the same tensor
//
// Each call has the arguments, the meaning and the errors of its namesake there; groups, objects, barriers
// and stores have no tensors and are used from there. Beyond that:
//
// Tensors may have any strides. If a tensor is not contiguous, the operation works on a copy; results are
// copied into the tensor before the operation completes. An operation holds its tensors, so the caller may
// drop them. It must not change them before the operation has completed.
//
// On CUDA tensors everything is in the order of LibTorch's current streams: an operation comes after what is
// in the caller's, and wait() makes the caller's stream wait and not the host (dlaunch/work.h). A result that
// is not contiguous is in the order of the caller's stream when the call returns, also of an asynchronous
// one.
//
// Autograd does not record the calls. A tensor that an operation writes gets a new version, as with every
// operation in place: a backward pass that needs its old values reports an error.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dlaunch/distributed.h"
#include "dlaunch/export.h"
#include "dlaunch/future.h"
#include "dlaunch/torch/tensor.h"

namespace dlaunch::torch {
inline namespace v1 {

// A Work that knows the tensors that its operation writes, in the order of the arguments.
class DLAUNCH_EXPORT TensorWork : public Work {
 public:
  TensorWork() = default;
  TensorWork(Work work, std::vector<at::Tensor> results);

  // wait(), then the tensors.
  [[nodiscard]] const std::vector<at::Tensor>& result() const;
  // Of the tensors. Completed by the thread that ends the operation: what its callbacks must not do,
  // Work::then lists.
  [[nodiscard]] Future<std::vector<at::Tensor>> get_future() const;

 private:
  std::shared_ptr<const std::vector<at::Tensor>> results_;
};

DLAUNCH_EXPORT TensorWork all_reduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::sum,
                                     const CollectiveOptions& options = {});
DLAUNCH_EXPORT TensorWork broadcast(const at::Tensor& tensor, int src, const CollectiveOptions& options = {});
DLAUNCH_EXPORT TensorWork all_gather(const Tensors& outputs, const at::Tensor& input,
                                     const CollectiveOptions& options = {});
DLAUNCH_EXPORT TensorWork all_gather_into_tensor(const at::Tensor& output, const at::Tensor& input,
                                                 const CollectiveOptions& options = {});
DLAUNCH_EXPORT TensorWork reduce(const at::Tensor& tensor, int dst, ReduceOp op = ReduceOp::sum,
                                 const CollectiveOptions& options = {});
DLAUNCH_EXPORT TensorWork gather(const Tensors& outputs, const at::Tensor& input, int dst,
                                 const CollectiveOptions& options = {});
DLAUNCH_EXPORT TensorWork scatter(const at::Tensor& output, const Tensors& inputs, int src,
                                  const CollectiveOptions& options = {});
DLAUNCH_EXPORT TensorWork reduce_scatter(const at::Tensor& output, const Tensors& inputs,
                                         ReduceOp op = ReduceOp::sum, const CollectiveOptions& options = {});
DLAUNCH_EXPORT TensorWork reduce_scatter_tensor(const at::Tensor& output, const at::Tensor& input,
                                                ReduceOp op = ReduceOp::sum,
                                                const CollectiveOptions& options = {});
DLAUNCH_EXPORT TensorWork all_to_all(const Tensors& outputs, const Tensors& inputs,
                                     const CollectiveOptions& options = {});
DLAUNCH_EXPORT TensorWork all_to_all_single(const at::Tensor& output, const at::Tensor& input,
                                            std::span<const std::int64_t> output_splits = {},
                                            std::span<const std::int64_t> input_splits = {},
                                            const CollectiveOptions& options = {});
DLAUNCH_EXPORT TensorWork all_reduce_coalesced(const Tensors& tensors, ReduceOp op = ReduceOp::sum,
                                               const CollectiveOptions& options = {});
DLAUNCH_EXPORT TensorWork all_gather_into_tensor_coalesced(const Tensors& outputs, const Tensors& inputs,
                                                           const CollectiveOptions& options = {});
DLAUNCH_EXPORT TensorWork reduce_scatter_tensor_coalesced(const Tensors& outputs, const Tensors& inputs,
                                                          ReduceOp op = ReduceOp::sum,
                                                          const CollectiveOptions& options = {});

DLAUNCH_EXPORT void send(const at::Tensor& tensor, int dst, const PointToPointOptions& options = {});
DLAUNCH_EXPORT int recv(const at::Tensor& tensor, int src = any_source,
                        const PointToPointOptions& options = {});
DLAUNCH_EXPORT TensorWork isend(const at::Tensor& tensor, int dst, const PointToPointOptions& options = {});
DLAUNCH_EXPORT TensorWork irecv(const at::Tensor& tensor, int src = any_source,
                                const PointToPointOptions& options = {});

// One of the messages of batch_isend_irecv.
struct P2POp {
  dlaunch::P2POp::Kind kind;
  at::Tensor tensor;
  int peer;  // irecv: may be any_source
  std::uint32_t tag = 0;
  ProcessGroup group = {};  // none: that of the call
};

DLAUNCH_EXPORT std::vector<TensorWork> batch_isend_irecv(std::span<const P2POp> ops, ProcessGroup group = {});

}  // namespace v1
}  // namespace dlaunch::torch
