// Gradients through remote calls: torch.distributed.autograd.
//
//   dlaunch::torch::dist_autograd::Context context;
//   at::Tensor loss = dlaunch::rpc::rpc_sync("worker1", add, t1, t2).sum();
//   dlaunch::torch::dist_autograd::backward(context.id(), {loss});
//   auto gradients = dlaunch::torch::dist_autograd::get_gradients(context.id());
//   gradients.at(t1);
//
// Calls that a thread makes while it has a Context, and all that their functions call, are under that
// context: the graph of autograd goes on through each tensor of their arguments and results that requires a
// gradient. Each worker keeps its part of the graph, and gradients go back through the same messages, to the
// devices of the tensors that they are of: they need no device map.
#pragma once

#include <ATen/core/Dict.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>  // c10::Dict, whole

#include <cstdint>

#include "dlaunch/export.h"
#include "dlaunch/rpc_context.h"
#include "dlaunch/rref.h"
#include "dlaunch/torch/rpc_tensors.h"
#include "dlaunch/torch/tensor.h"

namespace dlaunch::torch {
inline namespace v1 {
namespace dist_autograd {

// A context, this thread's as long as the guard lives; then the one before. At its end all workers that calls
// under it have reached forget what they have recorded. Functions that still run under it then record nothing
// more. Callbacks (Future::then) are under the context in which then() was called. Threads that a function
// starts have none.
class DLAUNCH_EXPORT Context {
 public:
  // Throws DistError unless init_rpc has been called.
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // No other context of any worker has it. Positive.
  [[nodiscard]] std::int64_t id() const { return id_; }

 private:
  const std::int64_t id_;
  const rpc::rpc_detail::CallContextScope scope_;
};

// Computes the gradients of the sum of the roots, which have one element each, in all workers, and returns
// when they have them: those of parameters and other leaves are added to the context, in the worker of each
// leaf, and not to .grad. Nodes run in the CUDA streams of their forward; the gradients are there for every
// stream. Results and arguments that the roots do not depend on get none. The graph is freed
// unless retain_graph. `timeout` bounds each worker's part of the pass (none: as init_rpc's rpc_timeout).
//
// Throws DistError for a context that this worker does not know or a root of another kind; what LibTorch
// throws here; and RemoteError or DistNetworkError that names the worker that fails, dies or does not answer.
// Then the pass has ended in all workers; gradients that have been computed stay in the context.
DLAUNCH_EXPORT void backward(std::int64_t context_id, const Tensors& roots, bool retain_graph = false,
                             rpc::Destination::Timeout timeout = {});
// The same with a root that lives in another worker: the pass begins there. Context -1: LibTorch's backward()
// there, which adds to .grad.
DLAUNCH_EXPORT void backward(const rpc::RRef<at::Tensor>& root, std::int64_t context_id = -1,
                             bool retain_graph = false);

// The gradients that this worker has in the context, by the leaves. DistError if it does not know the
// context.
DLAUNCH_EXPORT c10::Dict<at::Tensor, at::Tensor> get_gradients(std::int64_t context_id);

}  // namespace dist_autograd
}  // namespace v1
}  // namespace dlaunch::torch
