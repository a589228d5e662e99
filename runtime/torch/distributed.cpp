#include "dlaunch/torch/distributed.h"

#include <utility>

#include "runtime/torch/operands.h"

namespace dlaunch::torch {
inline namespace v1 {

using internal::Operands;

TensorWork::TensorWork(Work work, std::vector<at::Tensor> results)
    : Work(std::move(work)), results_(std::make_shared<const std::vector<at::Tensor>>(std::move(results))) {}

const std::vector<at::Tensor>& TensorWork::result() const {
  wait();
  static const std::vector<at::Tensor> none;
  return results_ ? *results_ : none;
}

Future<std::vector<at::Tensor>> TensorWork::get_future() const {
  const Promise<std::vector<at::Tensor>> promise;
  then([promise, results = results_](const Work& ended) {
    if (const std::exception_ptr error = ended.exception()) return promise.set_exception(error);
    promise.set_value(results ? *results : std::vector<at::Tensor>());
  });
  return promise.future();
}

TensorWork all_reduce(const at::Tensor& tensor, ReduceOp op, const CollectiveOptions& options) {
  Operands operands("all_reduce");
  const Tensor view = operands.output(tensor);
  return std::move(operands).finish(dlaunch::all_reduce(view, op, options));
}

TensorWork broadcast(const at::Tensor& tensor, int src, const CollectiveOptions& options) {
  Operands operands("broadcast");
  const Tensor view = operands.output(tensor);
  return std::move(operands).finish(dlaunch::broadcast(view, src, options));
}

TensorWork all_gather(const Tensors& outputs, const at::Tensor& input, const CollectiveOptions& options) {
  Operands operands("all_gather");
  const Tensor from = operands.input(input);
  const std::vector<Tensor> to = operands.outputs(outputs);
  return std::move(operands).finish(dlaunch::all_gather(to, from, options));
}

TensorWork all_gather_into_tensor(const at::Tensor& output, const at::Tensor& input,
                                  const CollectiveOptions& options) {
  Operands operands("all_gather_into_tensor");
  const Tensor from = operands.input(input);
  const Tensor to = operands.output(output);
  return std::move(operands).finish(dlaunch::all_gather_into_tensor(to, from, options));
}

TensorWork reduce(const at::Tensor& tensor, int dst, ReduceOp op, const CollectiveOptions& options) {
  Operands operands("reduce");
  const Tensor view = operands.output(tensor);
  return std::move(operands).finish(dlaunch::reduce(view, dst, op, options));
}

TensorWork gather(const Tensors& outputs, const at::Tensor& input, int dst,
                  const CollectiveOptions& options) {
  Operands operands("gather");
  const Tensor from = operands.input(input);
  const std::vector<Tensor> to = operands.outputs(outputs);
  return std::move(operands).finish(dlaunch::gather(to, from, dst, options));
}

TensorWork scatter(const at::Tensor& output, const Tensors& inputs, int src,
                   const CollectiveOptions& options) {
  Operands operands("scatter");
  const std::vector<Tensor> from = operands.inputs(inputs);
  const Tensor to = operands.output(output);
  return std::move(operands).finish(dlaunch::scatter(to, from, src, options));
}

TensorWork reduce_scatter(const at::Tensor& output, const Tensors& inputs, ReduceOp op,
                          const CollectiveOptions& options) {
  Operands operands("reduce_scatter");
  const std::vector<Tensor> from = operands.inputs(inputs);
  const Tensor to = operands.output(output);
  return std::move(operands).finish(dlaunch::reduce_scatter(to, from, op, options));
}

TensorWork reduce_scatter_tensor(const at::Tensor& output, const at::Tensor& input, ReduceOp op,
                                 const CollectiveOptions& options) {
  Operands operands("reduce_scatter_tensor");
  const Tensor from = operands.input(input);
  const Tensor to = operands.output(output);
  return std::move(operands).finish(dlaunch::reduce_scatter_tensor(to, from, op, options));
}

TensorWork all_to_all(const Tensors& outputs, const Tensors& inputs, const CollectiveOptions& options) {
  Operands operands("all_to_all");
  const std::vector<Tensor> from = operands.inputs(inputs);
  const std::vector<Tensor> to = operands.outputs(outputs);
  return std::move(operands).finish(dlaunch::all_to_all(to, from, options));
}

TensorWork all_to_all_single(const at::Tensor& output, const at::Tensor& input,
                             std::span<const std::int64_t> output_splits,
                             std::span<const std::int64_t> input_splits, const CollectiveOptions& options) {
  Operands operands("all_to_all_single");
  const Tensor from = operands.input(input);
  const Tensor to = operands.output(output);
  return std::move(operands).finish(
      dlaunch::all_to_all_single(to, from, output_splits, input_splits, options));
}

TensorWork all_reduce_coalesced(const Tensors& tensors, ReduceOp op, const CollectiveOptions& options) {
  Operands operands("all_reduce_coalesced");
  const std::vector<Tensor> views = operands.outputs(tensors);
  return std::move(operands).finish(dlaunch::all_reduce_coalesced(views, op, options));
}

TensorWork all_gather_into_tensor_coalesced(const Tensors& outputs, const Tensors& inputs,
                                            const CollectiveOptions& options) {
  Operands operands("all_gather_into_tensor_coalesced");
  const std::vector<Tensor> from = operands.inputs(inputs);
  const std::vector<Tensor> to = operands.outputs(outputs);
  return std::move(operands).finish(dlaunch::all_gather_into_tensor_coalesced(to, from, options));
}

TensorWork reduce_scatter_tensor_coalesced(const Tensors& outputs, const Tensors& inputs, ReduceOp op,
                                           const CollectiveOptions& options) {
  Operands operands("reduce_scatter_tensor_coalesced");
  const std::vector<Tensor> from = operands.inputs(inputs);
  const std::vector<Tensor> to = operands.outputs(outputs);
  return std::move(operands).finish(dlaunch::reduce_scatter_tensor_coalesced(to, from, op, options));
}

void send(const at::Tensor& tensor, int dst, const PointToPointOptions& options) {
  Operands operands("send");
  dlaunch::send(operands.input(tensor), dst, options);
}

int recv(const at::Tensor& tensor, int src, const PointToPointOptions& options) {
  Operands operands("recv");
  const int source = dlaunch::recv(operands.output(tensor), src, options);
  (void)std::move(operands).finish(Work());
  return source;
}

TensorWork isend(const at::Tensor& tensor, int dst, const PointToPointOptions& options) {
  Operands operands("isend");
  const Tensor view = operands.input(tensor);
  return std::move(operands).finish(dlaunch::isend(view, dst, options));
}

TensorWork irecv(const at::Tensor& tensor, int src, const PointToPointOptions& options) {
  Operands operands("irecv");
  const Tensor view = operands.output(tensor);
  return std::move(operands).finish(dlaunch::irecv(view, src, options));
}

std::vector<TensorWork> batch_isend_irecv(std::span<const P2POp> ops, ProcessGroup group) {
  std::vector<Operands> operands;
  std::vector<dlaunch::P2POp> messages;
  for (const P2POp& op : ops) {
    Operands& own = operands.emplace_back("batch_isend_irecv");
    const bool sends = op.kind == dlaunch::P2POp::Kind::isend;
    messages.push_back({.kind = op.kind,
                        .tensor = sends ? own.input(op.tensor) : own.output(op.tensor),
                        .peer = op.peer,
                        .tag = op.tag,
                        .group = op.group});
  }
  const std::vector<Work> started = dlaunch::batch_isend_irecv(messages, std::move(group));
  std::vector<TensorWork> works;
  for (std::size_t i = 0; i < started.size(); ++i) works.push_back(std::move(operands[i]).finish(started[i]));
  return works;
}

}  // namespace v1
}  // namespace dlaunch::torch
