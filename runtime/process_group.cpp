#include "dlaunch/process_group.h"

#include <utility>

#include "dlaunch/error.h"
#include "runtime/combined_work.h"
#include "runtime/group_impl.h"

namespace dlaunch {
inline namespace v1 {

namespace {

GroupImpl& required(const std::shared_ptr<GroupImpl>& impl) {
  if (!impl) throw DistError("this ProcessGroup means no group");
  return *impl;
}

// Starts each of `count` operations and makes one Work of them.
template <class Start>
Work start_all(std::size_t count, const OperationOptions& options, const Start& start) {
  OperationOptions each = options;
  each.async_op = true;
  std::vector<Work> works;
  works.reserve(count);
  for (std::size_t i = 0; i < count; ++i) works.push_back(start(i, each));
  Work together = all_of(works);
  if (options.async_op) return together;
  together.wait();
  return {};
}

void require_pairs(std::span<const Tensor> outputs, std::span<const Tensor> inputs) {
  if (outputs.size() == inputs.size()) return;
  throw DistError(std::to_string(outputs.size()) + " outputs and " + std::to_string(inputs.size()) +
                  " inputs: there must be as many of both");
}

}  // namespace

int ProcessGroup::rank() const { return required(impl_).description().rank; }
int ProcessGroup::size() const { return required(impl_).description().size; }
const std::vector<int>& ProcessGroup::ranks() const { return required(impl_).description().ranks; }
const std::string& ProcessGroup::name() const { return required(impl_).description().name; }
const std::string& ProcessGroup::backend() const { return required(impl_).description().backend; }
std::chrono::milliseconds ProcessGroup::timeout() const { return required(impl_).timeout(); }
void ProcessGroup::set_timeout(std::chrono::milliseconds timeout) const {
  required(impl_).set_timeout(timeout);
}

Work ProcessGroup::all_reduce(const Tensor& tensor, ReduceOp op, const OperationOptions& options) const {
  return required(impl_).all_reduce(tensor, op, options);
}
Work ProcessGroup::broadcast(const Tensor& tensor, int src, const OperationOptions& options) const {
  return required(impl_).broadcast(tensor, src, options);
}
Work ProcessGroup::all_gather(std::span<const Tensor> outputs, const Tensor& input,
                              const OperationOptions& options) const {
  return required(impl_).all_gather(outputs, input, options);
}
Work ProcessGroup::all_gather_into_tensor(const Tensor& output, const Tensor& input,
                                          const OperationOptions& options) const {
  return required(impl_).all_gather_into_tensor(output, input, options);
}
Work ProcessGroup::barrier(const OperationOptions& options) const { return required(impl_).barrier(options); }
Work ProcessGroup::reduce(const Tensor& tensor, int dst, ReduceOp op, const OperationOptions& options) const {
  return required(impl_).reduce(tensor, dst, op, options);
}
Work ProcessGroup::gather(std::span<const Tensor> outputs, const Tensor& input, int dst,
                          const OperationOptions& options) const {
  return required(impl_).gather(outputs, input, dst, options);
}
Work ProcessGroup::scatter(const Tensor& output, std::span<const Tensor> inputs, int src,
                           const OperationOptions& options) const {
  return required(impl_).scatter(output, inputs, src, options);
}
Work ProcessGroup::reduce_scatter(const Tensor& output, std::span<const Tensor> inputs, ReduceOp op,
                                  const OperationOptions& options) const {
  return required(impl_).reduce_scatter(output, inputs, op, options);
}
Work ProcessGroup::reduce_scatter_tensor(const Tensor& output, const Tensor& input, ReduceOp op,
                                         const OperationOptions& options) const {
  return required(impl_).reduce_scatter_tensor(output, input, op, options);
}
Work ProcessGroup::all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                              const OperationOptions& options) const {
  return required(impl_).all_to_all(outputs, inputs, options);
}
Work ProcessGroup::all_to_all_single(const Tensor& output, const Tensor& input,
                                     std::span<const std::int64_t> output_splits,
                                     std::span<const std::int64_t> input_splits,
                                     const OperationOptions& options) const {
  return required(impl_).all_to_all_single(output, input, output_splits, input_splits, options);
}
Work ProcessGroup::all_reduce_coalesced(std::span<const Tensor> tensors, ReduceOp op,
                                        const OperationOptions& options) const {
  return required(impl_).all_reduce_coalesced(tensors, op, options);
}
Work ProcessGroup::all_gather_into_tensor_coalesced(std::span<const Tensor> outputs,
                                                    std::span<const Tensor> inputs,
                                                    const OperationOptions& options) const {
  require_pairs(outputs, inputs);
  return start_all(inputs.size(), options, [&](std::size_t i, const OperationOptions& each) {
    return required(impl_).all_gather_into_tensor(outputs[i], inputs[i], each);
  });
}
Work ProcessGroup::reduce_scatter_tensor_coalesced(std::span<const Tensor> outputs,
                                                   std::span<const Tensor> inputs, ReduceOp op,
                                                   const OperationOptions& options) const {
  require_pairs(outputs, inputs);
  return start_all(inputs.size(), options, [&](std::size_t i, const OperationOptions& each) {
    return required(impl_).reduce_scatter_tensor(outputs[i], inputs[i], op, each);
  });
}

void ProcessGroup::send(const Tensor& tensor, int dst, const MessageOptions& options) const {
  required(impl_).isend(tensor, dst, options).wait();
}
int ProcessGroup::recv(const Tensor& tensor, int src, const MessageOptions& options) const {
  const Work work = required(impl_).irecv(tensor, src, options);
  work.wait();
  return work.source_rank();
}
Work ProcessGroup::isend(const Tensor& tensor, int dst, const MessageOptions& options) const {
  return required(impl_).isend(tensor, dst, options);
}
Work ProcessGroup::irecv(const Tensor& tensor, int src, const MessageOptions& options) const {
  return required(impl_).irecv(tensor, src, options);
}
std::vector<Work> ProcessGroup::batch_isend_irecv(std::span<const P2POp> ops) const {
  return required(impl_).batch_isend_irecv(ops);
}

void ProcessGroup::monitored_barrier(std::optional<std::chrono::milliseconds> timeout,
                                     bool wait_all_ranks) const {
  required(impl_).monitored_barrier(timeout, wait_all_ranks);
}

void ProcessGroup::breakpoint(int rank) const { required(impl_).breakpoint(rank); }

void ProcessGroup::abort(const std::string& reason) const { required(impl_).abort(reason); }

void Coalescing::all_reduce(const Tensor& tensor, ReduceOp op) {
  noted_.push_back({Noted::Kind::all_reduce, tensor, tensor, op});
}
void Coalescing::all_gather_into_tensor(const Tensor& output, const Tensor& input) {
  noted_.push_back({Noted::Kind::all_gather, output, input, ReduceOp::sum});
}
void Coalescing::reduce_scatter_tensor(const Tensor& output, const Tensor& input, ReduceOp op) {
  noted_.push_back({Noted::Kind::reduce_scatter, output, input, op});
}

Work Coalescing::end(const OperationOptions& options) {
  const std::vector<Noted> noted = std::exchange(noted_, {});
  OperationOptions each = options;
  each.async_op = true;
  std::vector<Work> works;
  for (std::size_t i = 0; i < noted.size();) {
    const Noted& first = noted[i];
    std::vector<Tensor> together;
    switch (first.kind) {
      case Noted::Kind::all_reduce:
        // As many of the following as can be one operation.
        for (; i < noted.size() && noted[i].kind == first.kind && noted[i].op == first.op &&
               noted[i].output.dtype() == first.output.dtype() &&
               noted[i].output.device() == first.output.device();
             ++i) {
          together.push_back(noted[i].output);
        }
        works.push_back(group_.all_reduce_coalesced(together, first.op, each));
        break;
      case Noted::Kind::all_gather:
        works.push_back(group_.all_gather_into_tensor(first.output, first.input, each));
        ++i;
        break;
      case Noted::Kind::reduce_scatter:
        works.push_back(group_.reduce_scatter_tensor(first.output, first.input, first.op, each));
        ++i;
        break;
    }
  }
  Work all = all_of(works);
  if (options.async_op) return all;
  all.wait();
  return {};
}

}  // namespace v1
}  // namespace dlaunch
