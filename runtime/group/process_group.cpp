#include "dlaunch/process_group.h"

#include <utility>

#include "runtime/group/group_impl.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {

int ProcessGroup::rank() const { return GroupImpl::of(*this).description().rank; }
int ProcessGroup::size() const { return GroupImpl::of(*this).description().size; }
const std::vector<int>& ProcessGroup::ranks() const { return GroupImpl::of(*this).description().ranks; }
const std::string& ProcessGroup::name() const { return GroupImpl::of(*this).description().name; }
const std::string& ProcessGroup::backend() const { return GroupImpl::of(*this).description().backend; }
std::chrono::milliseconds ProcessGroup::timeout() const { return GroupImpl::of(*this).timeout(); }
void ProcessGroup::set_timeout(std::chrono::milliseconds timeout) const {
  GroupImpl::of(*this).set_timeout(timeout);
}

Work ProcessGroup::all_reduce(const Tensor& tensor, ReduceOp op, const OperationOptions& options) const {
  return GroupImpl::of(*this).all_reduce(tensor, op, options);
}
Work ProcessGroup::broadcast(const Tensor& tensor, int src, const OperationOptions& options) const {
  return GroupImpl::of(*this).broadcast(tensor, src, options);
}
Work ProcessGroup::all_gather(std::span<const Tensor> outputs, const Tensor& input,
                              const OperationOptions& options) const {
  return GroupImpl::of(*this).all_gather(outputs, input, options);
}
Work ProcessGroup::all_gather_into_tensor(const Tensor& output, const Tensor& input,
                                          const OperationOptions& options) const {
  return GroupImpl::of(*this).all_gather_into_tensor(output, input, options);
}
Work ProcessGroup::barrier(const OperationOptions& options, std::span<const int> device_ids) const {
  return GroupImpl::of(*this).barrier(options, device_ids);
}
Work ProcessGroup::reduce(const Tensor& tensor, int dst, ReduceOp op, const OperationOptions& options) const {
  return GroupImpl::of(*this).reduce(tensor, dst, op, options);
}
Work ProcessGroup::gather(std::span<const Tensor> outputs, const Tensor& input, int dst,
                          const OperationOptions& options) const {
  return GroupImpl::of(*this).gather(outputs, input, dst, options);
}
Work ProcessGroup::scatter(const Tensor& output, std::span<const Tensor> inputs, int src,
                           const OperationOptions& options) const {
  return GroupImpl::of(*this).scatter(output, inputs, src, options);
}
Work ProcessGroup::reduce_scatter(const Tensor& output, std::span<const Tensor> inputs, ReduceOp op,
                                  const OperationOptions& options) const {
  return GroupImpl::of(*this).reduce_scatter(output, inputs, op, options);
}
Work ProcessGroup::reduce_scatter_tensor(const Tensor& output, const Tensor& input, ReduceOp op,
                                         const OperationOptions& options) const {
  return GroupImpl::of(*this).reduce_scatter_tensor(output, input, op, options);
}
Work ProcessGroup::all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                              const OperationOptions& options) const {
  return GroupImpl::of(*this).all_to_all(outputs, inputs, options);
}
Work ProcessGroup::all_to_all_single(const Tensor& output, const Tensor& input,
                                     std::span<const std::int64_t> output_splits,
                                     std::span<const std::int64_t> input_splits,
                                     const OperationOptions& options) const {
  return GroupImpl::of(*this).all_to_all_single(output, input, output_splits, input_splits, options);
}
Work ProcessGroup::all_reduce_coalesced(std::span<const Tensor> tensors, ReduceOp op,
                                        const OperationOptions& options) const {
  return GroupImpl::of(*this).all_reduce_coalesced(tensors, op, options);
}
Work ProcessGroup::all_gather_into_tensor_coalesced(std::span<const Tensor> outputs,
                                                    std::span<const Tensor> inputs,
                                                    const OperationOptions& options) const {
  return GroupImpl::of(*this).all_gather_into_tensor_coalesced(outputs, inputs, options);
}
Work ProcessGroup::reduce_scatter_tensor_coalesced(std::span<const Tensor> outputs,
                                                   std::span<const Tensor> inputs, ReduceOp op,
                                                   const OperationOptions& options) const {
  return GroupImpl::of(*this).reduce_scatter_tensor_coalesced(outputs, inputs, op, options);
}

void ProcessGroup::send(const Tensor& tensor, int dst, const MessageOptions& options) const {
  GroupImpl::of(*this).isend(tensor, dst, options, GroupImpl::Tags::program, true).wait();
}
int ProcessGroup::recv(const Tensor& tensor, int src, const MessageOptions& options) const {
  const Work work = GroupImpl::of(*this).irecv(tensor, src, options, GroupImpl::Tags::program, true);
  work.wait();
  const int source = work.source_rank();
  return source < 0 && work.is_on_stream() ? src : source;  // the stream has yet to receive it
}
Work ProcessGroup::isend(const Tensor& tensor, int dst, const MessageOptions& options) const {
  return GroupImpl::of(*this).isend(tensor, dst, options);
}
Work ProcessGroup::irecv(const Tensor& tensor, int src, const MessageOptions& options) const {
  return GroupImpl::of(*this).irecv(tensor, src, options);
}
std::vector<Work> ProcessGroup::batch_isend_irecv(std::span<const P2POp> ops) const {
  return GroupImpl::of(*this).batch_isend_irecv(ops);
}

void ProcessGroup::monitored_barrier(std::optional<std::chrono::milliseconds> timeout,
                                     bool wait_all_ranks) const {
  GroupImpl::of(*this).monitored_barrier(timeout, wait_all_ranks);
}

SharedMemory ProcessGroup::allocate_shared(std::size_t bytes) const {
  return GroupImpl::of(*this).allocate_shared(bytes);
}

void ProcessGroup::breakpoint(int rank) const { GroupImpl::of(*this).breakpoint(rank); }

void ProcessGroup::abort(const std::string& reason) const { GroupImpl::of(*this).abort(reason); }

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
  GroupImpl& group = GroupImpl::of(group_);
  if (group.description().rank < 0) return group.run_together("Coalescing::end", {}, options);
  std::vector<GroupImpl::Prepared> all;
  for (std::size_t i = 0; i < noted.size();) {
    const Noted& first = noted[i];
    const Reduction reduction{first.op, options.premul_factor};
    std::vector<Tensor> together;
    switch (first.kind) {
      case Noted::Kind::all_reduce:
        // All following calls that can be one operation with this one.
        for (; i < noted.size() && noted[i].kind == first.kind && noted[i].op == first.op &&
               noted[i].output.dtype() == first.output.dtype() &&
               noted[i].output.device() == first.output.device();
             ++i) {
          together.push_back(noted[i].output);
        }
        all.push_back(group.prepare_all_reduce_coalesced(std::move(together), reduction));
        break;
      case Noted::Kind::all_gather:
        all.push_back(group.prepare_all_gather_into_tensor(first.output, first.input));
        ++i;
        break;
      case Noted::Kind::reduce_scatter:
        all.push_back(group.prepare_reduce_scatter_tensor(first.output, first.input, reduction));
        ++i;
        break;
    }
  }
  return group.run_together("Coalescing::end", all, options);
}

}  // namespace v1
}  // namespace dlaunch
